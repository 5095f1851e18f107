"""Which runs wait for which model, and when they look again."""

from datetime import UTC, datetime
from typing import Any

import pytest

from inferrun.contract import ServiceRef
from operator_shim.models import ModelWaits, awaited_service, digest_model
from operator_shim.run_watch import trim_run
from tests.unit.inferrun.kserve.stored import Json, knative, recorded

NOW = datetime(2026, 11, 21, 3, 0, 0, tzinfo=UTC)
IRIS = ServiceRef(kind="InferenceService", namespace="kserve-test", name="sklearn-iris")


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
def test_a_run_waits_for_its_model_while_its_status_says_so(status: Json, service: ServiceRef | None) -> None:
    assert awaited_service(run(**status)) == service
    assert awaited_service(trim_run(run(contract="e30=", **status))) == service


@pytest.mark.parametrize(
    ("job", "ended", "service"),
    [
        ("inf-a-u", None, None),
        ("inf-a-u", 1, IRIS),
        ("inf-a-u-2", 1, None),
        ("inf-a-u-2", 2, IRIS),
    ],
    ids=["warming-up", "before-the-second-job", "second-warm-up", "before-the-third-job"],
)
def test_a_run_whose_pod_waits_for_the_model_is_not_signalled(
    job: str, ended: int | None, service: ServiceRef | None
) -> None:
    """The object is ready, and no change of it matters to the Pod: a signal would only cost history."""
    status = {"jobStatus": {"name": job}, "endedLaunches": ended, "message": "Pod x waits until the model answers"}
    assert awaited_service(run(**status)) == service
    assert awaited_service(trim_run(run(contract="e30=", **status))) == service


def test_the_runs_of_a_model_are_known_until_they_do_not_wait_any_more() -> None:
    waits = ModelWaits()
    for name in ("b", "a"):
        assert waits.observe(("team", name), run()) == (None, IRIS)
    assert (waits.runs_of(IRIS), waits.services()) == ([("team", "a"), ("team", "b")], [IRIS])
    assert waits.observe(("team", "a"), run(phase="Running", reason="Running")) == (IRIS, None)
    assert waits.observe(("team", "b"), None) == (IRIS, None)
    assert (waits.runs_of(IRIS), waits.services()) == ([], [])


def test_of_an_object_only_its_identity_and_the_wait_are_kept() -> None:
    item = recorded("isvc-standard-stopped")
    item["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    digest = digest_model(item, now=NOW)
    assert "is stopped" in digest["wait"]
    assert set(digest) == {"metadata", "wait", "until"}
    ready = knative(metadata={"uid": "u", "resourceVersion": "8"})
    assert digest_model(ready, now=NOW)["wait"] is None
