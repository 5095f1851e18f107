"""Which runs wait for which model, and when they look again."""

from datetime import UTC, datetime
from typing import Any

import pytest

from operator_shim.model_waits import ModelWaits, Service, awaited_service, digest_model, outdated_runs, wait_of
from operator_shim.trimming import trim_run
from tests.unit.inferrun.kserve.stored import Json, knative, recorded

NOW = datetime(2026, 11, 21, 3, 0, 0, tzinfo=UTC)
IRIS = Service("InferenceService", "kserve-test", "sklearn-iris")


def run(**status: Any) -> Json:
    """A run that waits for that model, with other fields of its status."""
    model = {"kind": IRIS.kind, "namespace": IRIS.namespace, "name": IRIS.name}
    full = {"phase": "Pending", "reason": "ModelNotReady", "message": "it is stopped", "model": model, **status}
    metadata = {"name": "a", "namespace": "team", "uid": "u", "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"configRef": {"name": "c"}}, "status": full}


@pytest.mark.parametrize(
    ("status", "service"),
    [
        ({}, IRIS),
        ({"reason": "KServeNotInstalled"}, IRIS),
        ({"reason": "ModelNamespaceNotAllowed"}, None),
        ({"phase": "Running", "reason": "Running"}, None),
        ({"phase": "Failed"}, None),
        ({"model": None}, None),
        ({"model": {"kind": "InferenceService"}}, None),
    ],
)
def test_a_run_waits_for_its_model_while_its_status_says_so(status: Json, service: Service | None) -> None:
    assert awaited_service(run(**status)) == service
    assert awaited_service(trim_run(run(contract="e30=", **status))) == service


def test_the_runs_of_a_model_are_known_until_they_do_not_wait_any_more() -> None:
    waits = ModelWaits()
    for name in ("b", "a"):
        assert waits.observe(("team", name), run()) == IRIS
    assert (waits.runs_of(IRIS), waits.kinds()) == ([("team", "a"), ("team", "b")], frozenset({"InferenceService"}))
    waits.observe(("team", "a"), run(phase="Running", reason="Running"))
    waits.observe(("team", "b"), None)
    assert (waits.runs_of(IRIS), waits.services(), waits.is_awaited(IRIS)) == ([], [], False)


def test_a_run_looks_again_if_a_launch_would_say_something_else() -> None:
    seen = [(("team", "a"), run()), (("team", "b"), run(message="it was edited")), (("team", "c"), None)]
    assert outdated_runs(seen, wait="it is stopped") == [("team", "b")]
    assert outdated_runs(seen, wait=None) == [("team", "a"), ("team", "b")]


def test_of_an_object_only_its_identity_and_the_wait_are_kept() -> None:
    item = recorded("isvc-standard-stopped")
    item["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    digest = digest_model(item, now=NOW)
    assert "is stopped" in (wait_of(digest) or "")
    assert set(digest) == {"metadata", "wait"}
    ready = knative(metadata={"uid": "u", "resourceVersion": "8"})
    assert wait_of(digest_model(ready, now=NOW)) is None
