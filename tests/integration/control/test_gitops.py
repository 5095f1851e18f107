"""The health that GitOps tools show for objects as the API server stores them."""

import pytest
from temporalio.testing import ActivityEnvironment

from activities.judging.delete_run import HistoryPruner, RunDeleter
from activities.objects.events import EventRecorder
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import CONFIGS, EVENTS, RUNS
from inferrun.kube.runs import RunStore
from inferrun.reasons import Phase, Reason
from inferrun.run_ref import RunRef
from inferrun.run_status import ended_status
from inferrun.timestamps import utc_now
from tests.gitops_health import argocd_health, kstatus
from tests.integration.control.conftest import MakeConfig, MakeRun
from tests.integration.control.pods import Launched
from workflows.messages import DeleteRunInput, DeletionResult

pytestmark = pytest.mark.thorough

BECAUSE = "autoDeletePolicy is DeleteOnSuccess and autoDeleteDelaySeconds 300"


def pruner_over(api: KubeClient) -> HistoryPruner:
    async def postpone(_run: RunRef, _seconds: int) -> None:
        raise AssertionError("the run ended long ago")

    return HistoryPruner(api, RunStore(api), events=EventRecorder(api, reporter="tests"), postpone=postpone)


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


async def test_an_automatic_deletion_is_announced_on_the_run_and_its_config(
    api: KubeClient, make_run: MakeRun, make_config: MakeConfig
) -> None:
    config = await make_config()
    run = await make_run(
        configRef={"name": config},
        status={"phase": "Succeeded", "reason": "Succeeded", "deleteAfter": "2026-01-01T00:00:00Z"},
    )
    pruner = pruner_over(api)
    deleter = RunDeleter(api, RunStore(api), events=EventRecorder(api, reporter="tests"), pruner=pruner)
    request = DeleteRunInput(run=run.ref, because=BECAUSE)
    result: DeletionResult = await ActivityEnvironment().run(deleter.delete_run, request)
    assert result.deleted
    policy = f"autoDeletePolicy in InferenceConfig {config}"
    assert result.message == f"InferenceRun {run.metadata.name} (Succeeded) is deleted: {policy}; {BECAUSE}"
    with pytest.raises(NotFound):
        await api.get(RUNS, run.metadata.namespace, run.metadata.name)
    uids = [run.metadata.uid, (await api.get(CONFIGS, run.metadata.namespace, config))["metadata"]["uid"]]
    for uid in uids:
        selector = f"involvedObject.uid={uid},reason=AutoDeleted"
        found = (await api.list(EVENTS, run.metadata.namespace, fieldSelector=selector))["items"]
        assert [event["message"] for event in found] == [result.message]
    again: DeletionResult = await ActivityEnvironment().run(deleter.delete_run, request)
    assert (again.gone, again.deleted) == (True, False)
    assert "had been deleted before" in again.message


async def test_a_run_beyond_the_history_limit_is_announced_on_the_run_and_its_schedule(
    api: KubeClient, make_run: MakeRun
) -> None:
    parent = await make_run(schedule="1 * * * *", successfulJobsHistoryLimit=0)
    owner = {"apiVersion": wellknown.API_VERSION, "kind": wellknown.RUN_KIND, "name": parent.metadata.name}
    child = await make_run(status={"phase": "Succeeded", "reason": "Succeeded"})
    namespace, name = child.metadata.namespace, child.metadata.name
    metadata = {
        "labels": {wellknown.LABEL_SCHEDULE_UID: parent.metadata.uid},
        "ownerReferences": [{**owner, "uid": parent.metadata.uid, "controller": True}],
    }
    await api.patch(RUNS, namespace, name, {"metadata": metadata})
    assert await pruner_over(api).prune(parent.ref) == [name]
    limit = f"successfulJobsHistoryLimit of {parent.metadata.name}"
    expected = f"InferenceRun {name} (Succeeded) is deleted: {limit} keeps no more runs"
    for uid in (child.metadata.uid, parent.metadata.uid):
        selector = f"involvedObject.uid={uid},reason=HistoryPruned"
        found = (await api.list(EVENTS, namespace, fieldSelector=selector))["items"]
        assert [event["message"] for event in found] == [expected]
