"""The health that GitOps tools show for the statuses that our code writes."""

import re

import pytest

from inferrun import wellknown
from inferrun.reasons import Phase, Reason
from tests.gitops_health import CONFIG_MAP, HEALTHS, argocd_health, waiting
from tests.unit.objects import Json

RUN, CONFIG = wellknown.RUN_KIND, wellknown.CONFIG_KIND


@pytest.mark.parametrize(("item", "argocd"), [(item, argocd) for item, argocd, _ in HEALTHS])
def test_the_health_of_a_run_follows_from_its_status(*, item: Json, argocd: str) -> None:
    status, message = argocd_health(item, kind=RUN)
    assert status == argocd
    assert item["status"]["message"] in message
    assert item["status"]["reason"] in message


@pytest.mark.parametrize(
    "item",
    [
        {"metadata": {}},
        {"metadata": {}, "status": {}},
        {"metadata": {"generation": 1}, "status": {"observedGeneration": -1}},
    ],
)
@pytest.mark.parametrize("kind", [RUN, CONFIG])
def test_an_object_without_a_status_is_progressing(*, item: Json, kind: str) -> None:
    assert argocd_health(item, kind=kind)[0] == "Progressing"


def test_an_edit_that_has_not_taken_effect_is_progressing() -> None:
    item = {**waiting(Phase.RUNNING, Reason.RUNNING), "metadata": {"generation": 4}}
    assert argocd_health(item, kind=RUN) == (
        "Progressing",
        "an edit of the spec has not taken effect yet",
    )


def test_a_run_that_was_only_accepted_is_not_taken_for_an_edited_one() -> None:
    item = waiting(Phase.PENDING, Reason.ACCEPTED)
    item["status"]["observedGeneration"] = -1
    assert argocd_health(item, kind=RUN) == ("Progressing", "Accepted: said")


@pytest.mark.parametrize(("ready", "argocd"), [("True", "Healthy"), ("False", "Degraded")])
def test_the_health_of_a_config_is_its_readiness(*, ready: str, argocd: str) -> None:
    conditions = [{"type": "Ready", "status": ready, "reason": "Why", "message": "said"}]
    item = {
        "metadata": {"generation": 1},
        "status": {"observedGeneration": 1, "conditions": conditions},
    }
    assert argocd_health(item, kind=CONFIG) == (argocd, "Why: said")
    edited = {**item, "metadata": {"generation": 2}}
    assert argocd_health(edited, kind=CONFIG)[0] == "Progressing"


def test_the_scripts_use_only_what_argo_cd_provides() -> None:
    called = set(re.findall(r"(\w+)\(", CONFIG_MAP.read_text()))
    assert called == {"ipairs"}
