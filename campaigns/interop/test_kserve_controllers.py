"""What a run makes of objects that KServe's own controllers have written; each case went wrong
once."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from campaigns.benchmarks.control_plane import ControlPlane, control_plane
from campaigns.benchmarks.processes import Process
from campaigns.interop import kserve_controllers
from campaigns.interop.kserve_controllers import DEPLOYMENTS, LLM_CONFIGS, Models
from inferrun.kserve import ModelAddress
from inferrun.kube.objects import SERVICES
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.reasons import Reason
from tests.integration.conftest import CLUSTER_FILES
from tests.integration.kserve.cluster import INFERENCE_SERVICES

ISVC, LLM = "InferenceService", "LLMInferenceService"
CRASH = {"terminated": {"exitCode": 1, "reason": "Error", "message": "No module named 'sklearn'"}}
IMAGE = "localhost/inferrun-tests/absent:1"


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with control_plane(tmp_path_factory.mktemp("plane"), binaries=CLUSTER_FILES / "bin") as started:
        yield started


@pytest.fixture(scope="module")
def controllers(plane: ControlPlane) -> Iterator[Process]:
    yield from kserve_controllers.start(plane)


@pytest.fixture
async def models(plane: ControlPlane, controllers: Process) -> AsyncIterator[Models]:
    assert controllers.child.poll() is None, controllers.tail()
    async with kserve_controllers.models(plane) as made:
        yield made


def is_address(answer: ModelAddress | LaunchBlocked) -> bool:
    return isinstance(answer, ModelAddress)


def says(text: str) -> Any:
    return lambda answer: isinstance(answer, LaunchBlocked) and text in answer.message


def of_format(name: str, **model: Any) -> dict[str, Any]:
    return {
        "predictor": {
            "model": {"modelFormat": {"name": name}, "storageUri": "pvc://models/iris", **model}
        }
    }


def llm_pod(**model: Any) -> dict[str, Any]:
    return {
        "model": {"uri": "hf://org/tiny", **model},
        "template": {"containers": [{"name": "main", "image": IMAGE}]},
    }


@pytest.mark.parametrize(
    ("spec", "protocol", "path"),
    [
        (of_format("vLLM"), "openai", "/v1"),
        (of_format("pytorch"), "v1", "/v1/models/model:predict"),
        (of_format("pytorch", protocolVersion="v2"), "v2", "/v2/models/model/infer"),
        (of_format("sklearn"), "v2", "/v2/models/model/infer"),
    ],
    ids=["vllm", "torchserve", "torchserve-v2", "sklearn"],
)
async def test_the_protocol_is_the_one_that_kserve_starts_the_server_with(
    models: Models, spec: dict[str, Any], protocol: str, path: str
) -> None:
    await models.apply(ISVC, "model", spec)
    await models.make_ready("model-predictor")
    answer = await models.answers(ISVC, "model", until=is_address)
    assert isinstance(answer, ModelAddress)
    assert answer.protocol == protocol
    assert answer.url == f"http://model-predictor.{models.namespace}.svc.cluster.local{path}"


@pytest.mark.parametrize("own", [None, "tiny"])
async def test_a_base_that_names_the_model_decides_the_name(
    models: Models, own: str | None
) -> None:
    for name, model in (("first", "other"), ("base", "llama")):
        base = {
            "metadata": {"name": name},
            "spec": {"model": {"uri": f"hf://org/{model}", "name": model}},
        }
        kind = {"apiVersion": LLM_CONFIGS.group_version, "kind": "LLMInferenceServiceConfig"}
        await models.api.create(LLM_CONFIGS, models.namespace, {**kind, **base})
    await models.apply(
        LLM, "chat", {**llm_pod(name=own), "baseRefs": [{"name": "first"}, {"name": "base"}]}
    )
    await models.make_ready("chat-kserve")
    answer = await models.answers(LLM, "chat", until=is_address)
    assert isinstance(answer, ModelAddress)
    deployment = await models.api.get(DEPLOYMENTS, models.namespace, "chat-kserve")
    [server] = deployment["spec"]["template"]["spec"]["containers"]
    assert '--served-model-name "llama"' in " ".join(
        [*server.get("command", []), *server.get("args", [])]
    )
    assert answer.model_name == "llama"
    assert ":8000" in answer.url


async def test_an_unscheduled_pod_is_reported_as_the_predictors_state(models: Models) -> None:
    await models.apply(ISVC, "model", of_format("sklearn"))
    await models.pods("model-predictor", count=1)
    answer = await models.answers(ISVC, "model", until=says("PredictorReady is"))
    assert isinstance(answer, LaunchBlocked)
    assert "ingress" not in answer.message


async def test_a_failed_load_that_was_fixed_is_waited_for_until_the_new_pod_reports(
    models: Models,
) -> None:
    await models.apply(ISVC, "model", of_format("sklearn"))
    [pod] = await models.pods("model-predictor", count=1)
    await models.play(pod, CRASH, restarts=3)
    answer = await models.answers(ISVC, "model", until=says("BlockedByFailedLoad"))
    assert isinstance(answer, LaunchBlocked)
    assert (answer.reason, answer.is_retryable) == (Reason.MODEL_NOT_READY, True)
    await models.apply(ISVC, "model", of_format("sklearn", storageUri="pvc://models/fixed"))
    fixed = await models.pods("model-predictor", count=2)
    answer = await models.answer(ISVC, "model")
    assert isinstance(answer, LaunchBlocked)
    assert answer.is_retryable, answer.message
    await models.play(fixed[-1], {"running": {}}, is_ready=True)
    assert is_address(await models.answers(ISVC, "model", until=is_address))


async def test_a_failed_load_is_final_when_the_deployment_had_its_time(models: Models) -> None:
    spec = of_format("sklearn")
    await models.apply(ISVC, "model", spec)
    [pod] = await models.pods("model-predictor", count=1)
    await models.play(pod, CRASH, restarts=3)
    await models.answers(ISVC, "model", until=says("the run starts when it has loaded"))
    await models.exceed_deadline("model-predictor")
    answer = await models.answers(ISVC, "model", until=says("delete and recreate the run"))
    assert isinstance(answer, LaunchBlocked)
    assert (answer.reason, answer.is_retryable) == (Reason.MODEL_FAILED, False)
    assert "ModelLoadFailed: No module named 'sklearn'" in answer.message


async def test_an_exit_of_a_container_that_recovers_fails_no_run(models: Models) -> None:
    await models.apply(ISVC, "model", of_format("sklearn"))
    await models.make_ready("model-predictor")
    await models.answers(ISVC, "model", until=is_address)
    [pod] = await models.pods("model-predictor", count=1)
    await models.play(pod, CRASH, restarts=1)
    answer = await models.answers(
        ISVC, "model", until=lambda found: isinstance(found, LaunchBlocked)
    )
    assert isinstance(answer, LaunchBlocked)
    assert answer.is_retryable, answer.message
    await models.play(pod, {"running": {}}, is_ready=True, restarts=1)
    assert is_address(await models.answers(ISVC, "model", until=is_address))


async def test_an_update_is_waited_for_while_the_old_pod_serves(models: Models) -> None:
    await models.apply(ISVC, "model", of_format("sklearn"))
    await models.make_ready("model-predictor")
    await models.answers(ISVC, "model", until=is_address)
    await models.apply(ISVC, "model", of_format("sklearn", storageUri="pvc://models/second"))
    pods = await models.pods("model-predictor", count=2)
    answer = await models.answers(ISVC, "model", until=says("is being updated"))
    assert isinstance(answer, LaunchBlocked)
    assert answer.is_unwatched
    await models.play(pods[-1], {"running": {}}, is_ready=True)
    answer = await models.answers(ISVC, "model", until=is_address)
    assert isinstance(answer, ModelAddress)
    assert answer.generation == 2


async def test_an_address_of_a_headless_service_has_the_port_of_the_protocol(
    models: Models,
) -> None:
    ports = [
        {"containerPort": 8085, "protocol": "TCP", "name": "http1"},
        {"containerPort": 9000, "name": "h2c", "protocol": "TCP"},
    ]
    async with models.headless():
        await models.apply(ISVC, "model", of_format("sklearn", protocolVersion="v2", ports=ports))
        await models.make_ready("model-predictor")
    answer = await models.answers(ISVC, "model", until=is_address)
    host = f"model-predictor.{models.namespace}.svc.cluster.local"
    found = await models.api.get(INFERENCE_SERVICES, models.namespace, "model")
    assert found["status"]["address"]["url"] == f"http://{host}:8080"
    assert isinstance(answer, ModelAddress)
    assert answer.url == f"http://{host}:8085/v2/models/model/infer"
    answer = await models.answer(ISVC, "model", protocol="grpc-v2")
    assert isinstance(answer, ModelAddress)
    assert answer.url == f"grpc://{host}:9000"


async def test_a_canary_is_named_in_a_warning_and_gets_no_requests(models: Models) -> None:
    canary = {
        "predictor": {
            "name": "blue",
            "model": {"modelFormat": {"name": "sklearn"}, "storageUri": "pvc://models/b"},
        }
    }
    spec = {**of_format("sklearn"), "canary": [{**canary, "trafficPercent": 20}]}
    spec["predictor"]["minReplicas"] = 2
    await models.apply(ISVC, "model", spec)
    await models.pods("model-blue-predictor", count=1)
    await models.make_ready("model-")
    answer = await models.answers(ISVC, "model", until=is_address)
    assert isinstance(answer, ModelAddress)
    assert ["has canaries (blue)" in one for one in answer.warnings] == [True]
    services = {
        one["metadata"]["name"]: one
        for one in (await models.api.list(SERVICES, models.namespace))["items"]
    }
    selectors = [
        services[name]["spec"]["selector"] for name in ("model-predictor", "model-blue-predictor")
    ]
    assert selectors[0] != selectors[1]
    assert "//model-predictor." in answer.url
