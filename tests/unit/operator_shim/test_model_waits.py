"""Which runs wait for which model, and when they look again."""

from datetime import UTC, datetime
from typing import Any

import pytest

from operator_shim.models import digest_model
from operator_shim.run_terms import A_MODEL, Awaited, awaited_model
from operator_shim.run_watch import trim_run
from tests.unit.inferrun.kserve.stored import Json, knative, recorded
from tests.unit.operator_shim.shown_runs import ShownRuns

NOW = datetime(2026, 11, 21, 3, 0, 0, tzinfo=UTC)
IRIS = Awaited("InferenceService", "kserve-test", "sklearn-iris")


def run(**status: Any) -> Json:
    """A run that waits for that model, with other fields of its status."""
    model = {"kind": IRIS.kind, "namespace": IRIS.namespace, "name": IRIS.name}
    full = {
        "phase": "Pending",
        "reason": "ModelNotReady",
        "message": "it is stopped",
        "model": model,
        **status,
    }
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
def test_a_run_waits_for_its_model_while_its_status_says_so(
    status: Json, service: Awaited | None
) -> None:
    assert awaited_model(run(**status)) == service
    assert awaited_model(trim_run(run(contract="e30=", **status))) == service


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
    job: str, ended: int | None, service: Awaited | None
) -> None:
    """The object is ready, and no change of it matters to the Pod: a signal would only cost
    history."""
    status = {
        "jobStatus": {"name": job},
        "endedLaunches": ended,
        "message": "Pod x waits until the model answers",
    }
    assert awaited_model(run(**status)) == service
    assert awaited_model(trim_run(run(contract="e30=", **status))) == service


def test_the_runs_of_a_model_are_known_until_they_do_not_wait_any_more() -> None:
    runs = ShownRuns()
    for name in ("b", "a"):
        runs.show(("team", name), run())
    assert (
        [key for key, _ in runs.find(IRIS)]
        == [key for key, _ in runs.find(A_MODEL)]
        == [("team", "b"), ("team", "a")]
    )
    runs.show(("team", "a"), run(phase="Running", reason="Running"))
    runs.show(("team", "b"), None)
    assert runs.find(IRIS) == runs.find(A_MODEL) == []


def test_of_an_object_only_its_identity_and_the_wait_are_kept() -> None:
    item = recorded("isvc-standard-stopped")
    item["metadata"] |= {"uid": "u", "resourceVersion": "7"}
    digest = digest_model(item, now=NOW)
    assert "is stopped" in digest["wait"]
    assert set(digest) == {"metadata", "wait", "until"}
    ready = knative(metadata={"uid": "u", "resourceVersion": "8"})
    assert digest_model(ready, now=NOW)["wait"] is None
