"""The requests that the end of a run costs. Those of its start are in `test_launch_job`; in
between, the observer writes the status once (`tests/unit/operator_shim/observer`).
"""

import httpx
import pytest
from temporalio.testing import ActivityEnvironment

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS, PODS, RUNS, Object, controller_of
from inferrun.launches.verdict import VerdictKind
from inferrun.reasons import Phase, Reason
from tests.integration.control.pods import FINISHED, STARTED, Launched, recorder_of
from tests.integration.control.proxy import Proxy
from tests.integration.crds.server import call
from tests.integration.waiting import eventually
from tests.unit.launches import ends_of
from workflows.messages import RecordInput, StatusResult

pytestmark = pytest.mark.thorough


async def test_the_success_of_a_run_costs_four_requests(
    api: KubeClient, job: Launched, proxy: Proxy
) -> None:
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": STARTED, "finishedAt": FINISHED}
    await job.tell({"terminated": ended}, phase="Succeeded")
    ends = ends_of(await job.pod())
    recorder = await recorder_of(api)
    known = {"snapshot": job.result.snapshot, "run": job.run.ref}
    name, uid = job.result.job_name, job.result.job_uid
    outcome = {
        "phase": Phase.SUCCEEDED,
        "reason": Reason.SUCCEEDED,
        "message": "done",
        "exit_code": 0,
    }
    record = RecordInput.model_validate(
        {**known, **outcome, "only_job_name": name, "only_job_uid": uid}
    )
    sent = len(proxy.requests)

    report = await job.inspect(ends=ends)
    result: StatusResult = await ActivityEnvironment().run(recorder.record_outcome, record)

    assert report.verdict is not None
    assert (report.verdict.kind, result.phase) == (VerdictKind.SUCCEEDED, Phase.SUCCEEDED)
    made = [(request.method, request.path.rpartition("/")[2]) for request in proxy.requests[sent:]]
    assert made == [
        ("GET", job.run.metadata.name),
        ("PATCH", "status"),
        ("POST", "events"),
        ("PATCH", name),
    ]


async def test_the_stop_of_a_deleted_run_costs_four_requests(
    api: KubeClient, job: Launched, proxy: Proxy
) -> None:
    """Kubernetes deletes the Job and the Pod. Its garbage collector may be slower or faster than
    the stop."""
    recorder = await recorder_of(api)
    known = {"snapshot": job.result.snapshot, "run": job.run.ref}
    name, uid = job.result.job_name, job.result.job_uid
    outcome = {
        "phase": Phase.FAILED,
        "reason": Reason.CANCELLED,
        "message": "the run was cancelled",
    }
    record = RecordInput.model_validate(
        {**known, **outcome, "only_job_name": name, "only_job_uid": uid}
    )
    await api.delete(RUNS, job.namespace, job.run.metadata.name, uid=job.run.metadata.uid)
    sent = len(proxy.requests)

    stopped = await job.stop()
    result: StatusResult = await ActivityEnvironment().run(recorder.record_outcome, record)

    assert (stopped.is_stopped, stopped.pods_left, stopped.pods_vanishing, result.gone) == (
        True,
        0,
        0,
        True,
    )
    made = [(request.method, request.path.rpartition("/")[2]) for request in proxy.requests[sent:]]
    run = job.run.metadata.name
    assert made == [("GET", run), ("DELETE", name), ("GET", "pods"), ("GET", run)]
    await eventually(lambda: is_gone(job), what="the Job and its Pod to be deleted")


async def test_a_pod_that_its_job_left_behind_does_not_outlive_its_run(
    api: KubeClient, job: Launched, direct: httpx.Client
) -> None:
    """Somebody deleted the Job without its Pod, and then the run."""
    pod = await job.pod()
    path = JOBS.path(job.namespace, job.result.job_name)
    options = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Orphan"}
    call(direct, "DELETE", path, options)

    async def is_left_behind() -> Object | None:
        left = await api.get(PODS, job.namespace, pod["metadata"]["name"])
        return left if controller_of(left) is None else None

    await eventually(is_left_behind, what="the Pod to be without a Job")
    await api.delete(RUNS, job.namespace, job.run.metadata.name, uid=job.run.metadata.uid)
    await job.stop()

    async def is_deleted() -> bool | None:
        pods = (await api.list(PODS, job.namespace))["items"]
        return (
            None if any(one["metadata"]["uid"] == pod["metadata"]["uid"] for one in pods) else True
        )

    await eventually(is_deleted, what="the Pod to be deleted")


async def is_gone(job: Launched) -> bool | None:
    """Whether nothing of the launch is left."""
    jobs = await job.api.list(JOBS, job.namespace)
    pods = await job.api.list(PODS, job.namespace)
    uid = job.result.job_uid
    left = [one for one in jobs["items"] if one["metadata"]["uid"] == uid]
    left += [one for one in pods["items"] if controller_of(one) == uid]
    return None if left else True
