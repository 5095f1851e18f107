"""What kstatus itself makes of the objects that the API server returns, and of the statuses that
our code writes."""

from secrets import token_hex

import pytest

from deploy.crds.schema import Schema
from inferrun.reasons import Phase, Reason
from tests.gitops_health import HEALTHS, ended, kstatus, waiting
from tests.integration.crds.manifests import CONFIG, GOOD_CONFIG, GOOD_RUN, RUN
from tests.integration.crds.server import Server


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        (RUN, GOOD_RUN),
        (RUN, {**GOOD_RUN, "schedule": "@daily"}),
        (RUN, {**GOOD_RUN, "suspend": True}),
        (CONFIG, GOOD_CONFIG),
    ],
)
def test_a_new_object_is_in_progress_from_the_create_response_on(
    server: Server, kind: str, spec: Schema
) -> None:
    """Flux takes an object without a status for done, and goes on after 0.1 s."""
    created = server.create(kind, spec, name=f"new-{token_hex(4)}")
    read = server.get(kind, created["metadata"]["name"])
    assert kstatus(created, read, kind=kind) == ["InProgress", "InProgress"]


def test_a_run_is_done_when_it_has_ended(server: Server) -> None:
    name = f"run-{token_hex(4)}"
    seen = [server.create(RUN, GOOD_RUN, name=name)]
    for phase, reason in ((Phase.PENDING, Reason.ACCEPTED), (Phase.RUNNING, Reason.RUNNING)):
        status = waiting(phase, reason)["status"]
        del status["observedGeneration"]  # as a writer that has not read the spec
        seen.append(server.patch_status(RUN, name, status))
    seen.append(
        server.patch_status(
            RUN,
            name,
            {**ended(Phase.SUCCEEDED, Reason.SUCCEEDED)["status"], "observedGeneration": 1},
        )
    )
    assert kstatus(*seen, kind=RUN) == ["InProgress", "InProgress", "InProgress", "Current"]


def test_the_statuses_that_our_code_writes_are_understood() -> None:
    items = [item for item, _, _ in HEALTHS]
    edited = {**waiting(Phase.RUNNING, Reason.RUNNING), "metadata": {"generation": 4}}
    assert kstatus(*items, edited, kind=RUN) == [*(flux for _, _, flux in HEALTHS), "InProgress"]


@pytest.mark.parametrize(("ready", "flux"), [("True", "Current"), ("False", "Failed")])
def test_a_config_is_done_when_it_has_been_checked(server: Server, ready: str, flux: str) -> None:
    name = f"config-{token_hex(4)}"
    server.create(CONFIG, GOOD_CONFIG, name=name)
    conditions = [{"type": "Ready", "status": ready, "reason": "Why", "message": "said"}]
    conditions += (
        [{"type": "Stalled", "status": "True", "reason": "Why"}] if ready == "False" else []
    )
    status = {"observedGeneration": 1, "conditions": conditions}
    assert kstatus(server.patch_status(CONFIG, name, status), kind=CONFIG) == [flux]
