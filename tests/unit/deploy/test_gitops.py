"""The health that GitOps tools show for the statuses that our code writes."""

import re
from typing import Any

import pytest

from inferrun import wellknown
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun
from inferrun.run_status import ended_status, status_after
from operator_shim.schedule_status import rejected_status, schedule_status
from tests.gitops_health import CONFIG_MAP, argocd_health, kstatus
from tests.unit.objects import NOW, Json, run

RUN, CONFIG = wellknown.RUN_KIND, wellknown.CONFIG_KIND


def item_of(before: InferenceRun, status: Any, *, generation: int = 3) -> Json:
    """The stored object with that status."""
    return {"metadata": {"generation": generation}, "spec": {}, "status": status.to_manifest()}


def waiting(phase: Phase, reason: Reason) -> Json:
    before = run()
    return item_of(before, status_after(before, phase=phase, reason=reason, message="said", now=NOW, read_generation=3))


def ended(phase: Phase, reason: Reason) -> Json:
    before = run()
    return item_of(before, ended_status(before, phase=phase, reason=reason, message="said", now=NOW))


def scheduled(**spec: Any) -> Json:
    before = run(schedule="1 * * * *", **spec)
    return item_of(before, schedule_status(before, next_times=[NOW], last_time=None, children=[], now=NOW))


def rejected() -> Json:
    before = run(schedule="0 0 30 2 *")
    return item_of(
        before, rejected_status(before, children=[], reason=Reason.INVALID_SCHEDULE, message="never fires", now=NOW)
    )


@pytest.mark.parametrize(
    ("item", "argocd", "flux"),
    [
        (waiting(Phase.PENDING, Reason.UNSCHEDULABLE), "Progressing", "InProgress"),
        (waiting(Phase.PENDING, Reason.VERIFYING), "Progressing", "InProgress"),
        (waiting(Phase.RUNNING, Reason.RUNNING), "Progressing", "InProgress"),
        (waiting(Phase.SUSPENDED, Reason.SUSPENDED), "Suspended", "InProgress"),
        (waiting(Phase.PENDING, Reason.INVALID_SPEC), "Degraded", "Failed"),
        (ended(Phase.SUCCEEDED, Reason.SUCCEEDED), "Healthy", "Current"),
        (ended(Phase.FAILED, Reason.INPUT_FAILED), "Degraded", "Failed"),
        (scheduled(), "Healthy", "Current"),
        (scheduled(suspend=True), "Suspended", "Current"),
        (rejected(), "Degraded", "Failed"),
    ],
)
def test_the_health_of_a_run_follows_from_its_status(*, item: Json, argocd: str, flux: str) -> None:
    status, message = argocd_health(item, kind=RUN)
    assert (status, kstatus(item)) == (argocd, flux)
    assert item["status"]["message"] in message
    assert item["status"]["reason"] in message


@pytest.mark.parametrize("item", [{"metadata": {}}, {"metadata": {}, "status": {}}])
@pytest.mark.parametrize("kind", [RUN, CONFIG])
def test_an_object_without_a_status_is_progressing(*, item: Json, kind: str) -> None:
    assert argocd_health(item, kind=kind)[0] == "Progressing"


def test_an_edit_that_has_not_taken_effect_is_progressing() -> None:
    item = {**waiting(Phase.RUNNING, Reason.RUNNING), "metadata": {"generation": 4}}
    assert argocd_health(item, kind=RUN) == ("Progressing", "an edit of the spec has not taken effect yet")
    assert kstatus(item) == "InProgress"


@pytest.mark.parametrize(("ready", "argocd", "flux"), [("True", "Healthy", "Current"), ("False", "Degraded", "Failed")])
def test_the_health_of_a_config_is_its_readiness(*, ready: str, argocd: str, flux: str) -> None:
    conditions = [{"type": "Ready", "status": ready, "reason": "Why", "message": "said"}]
    conditions += [{"type": "Stalled", "status": "True"}] if ready == "False" else []
    item = {"metadata": {"generation": 1}, "status": {"observedGeneration": 1, "conditions": conditions}}
    assert argocd_health(item, kind=CONFIG) == (argocd, "Why: said")
    assert kstatus(item) == flux
    edited = {**item, "metadata": {"generation": 2}}
    assert argocd_health(edited, kind=CONFIG)[0] == "Progressing"


def test_the_scripts_use_only_what_argo_cd_provides() -> None:
    called = set(re.findall(r"(\w+)\(", CONFIG_MAP.read_text()))
    assert called == {"ipairs"}
