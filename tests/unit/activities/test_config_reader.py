"""A config that many launches share is parsed once, and again when it or the operator's settings change."""

import orjson

from activities.cluster.config_reader import ConfigReader
from benchmarks.burst.passes import CONFIG
from inferrun.control.run_defaults import Defaults
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import Object, Resource
from inferrun.resources import InferenceConfig, parse_run

RUN = parse_run(
    {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceRun",
        "metadata": {"name": "first", "namespace": "team-a", "uid": "5be07ada-0000-0000-0000-000000000000"},
        "spec": {"configRef": {"name": "iris"}},
    }
)


class Server(KubeClient):
    """Serves one config."""

    def __init__(self) -> None:
        self.model = "first"

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:  # noqa: ARG002
        item: Object = orjson.loads(orjson.dumps(CONFIG))
        item["metadata"] |= {"name": name, "namespace": namespace, "uid": "u", "resourceVersion": self.model}
        item["spec"]["kserve"]["modelName"] = self.model
        return item


async def test_launches_that_share_a_read_share_what_was_parsed() -> None:
    reader = ConfigReader(Server(), defaults=Defaults, runner_account="")
    first = await reader.read(RUN, after=0.0)
    assert await reader.read(RUN, after=0.0) is first


async def test_what_is_read_again_is_parsed_again() -> None:
    server = Server()
    reader = ConfigReader(server, defaults=Defaults, runner_account="")
    await reader.read(RUN, after=None)
    server.model = "second"
    assert _model(await reader.read(RUN, after=None)) == "second"


def _model(config: InferenceConfig) -> str:
    assert config.spec.kserve is not None
    return config.spec.kserve.model_name or ""
