"""The health that GitOps tools show for objects as the API server stores them."""

import pytest

from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import RUNS
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason
from inferrun.run_ref import RunRef
from inferrun.run_status import ended_status
from inferrun.timestamps import utc_now
from tests.gitops_health import argocd_health, kstatus
from tests.integration.control.pods import Launched

pytestmark = pytest.mark.thorough


async def health(api: KubeClient, run: RunRef) -> tuple[str, str]:
    item = await api.get(RUNS, run.namespace, run.name)
    return argocd_health(item, kind=wellknown.RUN_KIND)[0], kstatus(item)


@pytest.mark.parametrize(
    ("phase", "reason", "expected"),
    [
        (Phase.SUCCEEDED, Reason.SUCCEEDED, ("Healthy", "Current")),
        (Phase.FAILED, Reason.INPUT_FAILED, ("Degraded", "Failed")),
    ],
)
async def test_a_run_is_progressing_until_it_has_ended(
    *, job: Launched, api: KubeClient, phase: Phase, reason: Reason, expected: tuple[str, str]
) -> None:
    assert await health(api, job.run.ref) == ("Progressing", "InProgress")
    await RunStore(api).update_status(
        job.run.ref, lambda run: ended_status(run, phase=phase, reason=reason, message="said", now=utc_now())
    )
    assert await health(api, job.run.ref) == expected
