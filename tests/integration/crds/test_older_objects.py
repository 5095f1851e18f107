"""The status of an object that was stored before a rule existed can still be written."""

from collections.abc import Callable, Iterator
from copy import deepcopy

import httpx
import pytest

from deploy.crds.definitions import inference_config, inference_run
from inferrun import wellknown
from tests.integration.crds.conftest import wait_until
from tests.integration.crds.server import (
    DEFINITIONS,
    Json,
    NotServed,
    Rejected,
    Server,
    apply_definition,
    call,
)

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
    lax = deepcopy(definition)
    lax["spec"]["versions"][0].pop("selectableFields", None)
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    lax["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    return lax


def accepts(server: Server, kind: str, spec: Json) -> bool:
    try:
        server.try_out(kind, spec)
    except (Rejected, NotServed):
        return False
    return True


@pytest.fixture
def definition(client: httpx.Client, make: Callable[[], Json]) -> Iterator[Json]:
    moved = of_another_group(make())
    yield moved
    call(client, "DELETE", f"{DEFINITIONS}/{moved['metadata']['name']}")


CONDITION = {
    "type": "Ready",
    "status": "False",
    "reason": "InvalidStorage",
    "message": "path climbs",
}


@pytest.mark.parametrize(
    ("make", "kind", "spec", "status"),
    [
        (
            inference_run,
            wellknown.RUN_KIND,
            {
                "configRef": {"name": "Not_A_Name"},
                "timeoutSeconds": -1,
                "schedule": "12345",
                "parameters": {"job_uid": "forged"},
                "timeZone": "Local",
            },
            {"phase": "Failed", "reason": "InvalidSchedule"},
        ),
        (
            inference_config,
            wellknown.CONFIG_KIND,
            {
                "kserve": {"modelName": "a", "modelVersion": "v9"},
                "modelName": "b",
                "runAsUser": 0,
                "autoDeletePolicy": "Sometimes",
                "storage": {"input": {"file": {"path": "../x"}}},
            },
            {"conditions": [CONDITION]},
        ),
    ],
    ids=["run", "config"],
)
def test_the_status_of_an_object_that_violates_later_rules_can_be_written(
    client: httpx.Client, namespace: str, definition: Json, kind: str, *, spec: Json, status: Json
) -> None:
    server = Server(client, namespace=namespace, group=GROUP)
    apply_definition(client, without_a_schema(definition))
    wait_until(
        lambda: accepts(server, kind, spec), what="the definition without rules to be served"
    )
    server.create(kind, spec, name="old")
    apply_definition(client, definition)
    wait_until(lambda: not accepts(server, kind, spec), what="the rules to be served")
    stored = server.patch_status(kind, "old", status)
    assert (stored["status"], stored["spec"]) == ({**status, "observedGeneration": -1}, spec)
