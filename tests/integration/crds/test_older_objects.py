"""The status of an object that was stored before a rule existed can still be written."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from secrets import token_hex

import httpx
import pytest

from deploy.crds.definitions import inference_config, inference_run
from inferrun import wellknown
from tests.integration.crds.conftest import wait_until
from tests.integration.crds.server import DEFINITIONS, Json, NotServed, Rejected, Server, apply_definition, call

pytestmark = pytest.mark.thorough

GROUP = "older.inferrun.dev"


def of_another_group(definition: Json) -> Json:
    """A copy of the definition in another group, so that the test can remove its rules."""
    moved = deepcopy(definition)
    moved["spec"]["group"] = GROUP
    moved["metadata"]["name"] = f"{moved['spec']['names']['plural']}.{GROUP}"
    moved["spec"]["names"] |= {"shortNames": [], "categories": []}
    return moved


def without_a_schema(definition: Json) -> Json:
    """The definition without rules."""
    lax = deepcopy(definition)
    lax["spec"]["versions"][0].pop("selectableFields", None)
    lax["spec"]["versions"][0]["schema"] = {
        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    }
    return lax


@pytest.fixture(scope="module")
def server(client: httpx.Client, namespace: str) -> Server:
    return Server(client, namespace=namespace, group=GROUP)


@pytest.fixture(scope="module")
def older(client: httpx.Client, server: Server) -> Iterator[Callable[[str, Json], str]]:
    """Stores a resource under a definition without rules, installs the one with rules, and returns the resource's name."""
    moved = {
        wellknown.CONFIG_KIND: of_another_group(inference_config()),
        wellknown.RUN_KIND: of_another_group(inference_run()),
    }

    def stored(kind: str, spec: Json) -> str:
        name = f"old-{token_hex(4)}"
        apply_definition(client, without_a_schema(moved[kind]))
        wait_until(lambda: accepts(server, kind, spec), what="the definition without rules to be served")
        server.create(kind, spec, name=name)
        apply_definition(client, moved[kind])
        wait_until(lambda: not accepts(server, kind, spec), what="the rules to be served")
        return name

    yield stored
    for definition in moved.values():
        call(client, "DELETE", f"{DEFINITIONS}/{definition['metadata']['name']}")


def accepts(server: Server, kind: str, spec: Json) -> bool:
    """Whether the API server would accept a new object with this spec."""
    try:
        server.try_out(kind, spec)
    except (Rejected, NotServed):
        return False
    return True


def test_the_status_of_a_run_that_violates_later_rules_can_be_written(
    older: Callable[[str, Json], str], server: Server
) -> None:
    spec = {
        "configRef": {"name": "Not_A_Name"},
        "timeoutSeconds": -1,
        "schedule": "12345",
        "parameters": {"job_uid": "forged"},
        "timeZone": "Local",
    }
    name = older(wellknown.RUN_KIND, spec)
    stored = server.patch_status(wellknown.RUN_KIND, name, {"phase": "Failed", "reason": "InvalidSchedule"})
    assert stored["status"] == {"phase": "Failed", "reason": "InvalidSchedule"}
    assert stored["spec"] == spec


def test_the_status_of_a_config_that_violates_later_rules_can_be_written(
    older: Callable[[str, Json], str], server: Server
) -> None:
    spec = {
        "kserve": {"modelName": "a", "modelVersion": "v9"},
        "modelName": "b",
        "runAsUser": 0,
        "autoDeletePolicy": "Sometimes",
        "storage": {"input": {"file": {"path": "../x"}}},
    }
    name = older(wellknown.CONFIG_KIND, spec)
    condition = {"type": "Ready", "status": "False", "reason": "InvalidStorage", "message": "path climbs"}
    assert server.patch_status(wellknown.CONFIG_KIND, name, {"conditions": [condition]})["status"] == {
        "conditions": [condition]
    }
