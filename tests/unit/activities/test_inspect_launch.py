"""The reading of a launch's end, where the cluster does not answer."""

import asyncio

import pytest

from activities.cluster.launch_reader import LaunchReader
from activities.cluster.pod_logs import PodLogs
from activities.inspect_launch import LOG_SECONDS, LaunchInspector
from activities.installation import Installation
from activities.rules.pod_end import PodEnd
from activities.rules.pod_shape import shape_of_pod
from inferrun.control.run_defaults import Defaults
from inferrun.kube.runs import RunStore
from inferrun.reasons import Reason
from inferrun.runner_report import RunnerResult, dump_result
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.launches import JOB_NAME, JOB_UID, live_job, live_pod
from tests.unit.objects import RUN, Json, snapshot, terminated
from workflows.activity_options import LOCAL_SECONDS
from workflows.messages import InspectInput, LaunchReport, LaunchStage, VerdictKind

INSTALLATION = Installation(
    id="tests", task_queue="tests", namespace="default", temporal_namespace="default", ui_url="http://ui"
)


def inspector_of(api: StoredObjects, launches: LaunchReader) -> LaunchInspector:
    return LaunchInspector(
        api, RunStore(api), launches, installation=INSTALLATION, logs=PodLogs(api), defaults=Defaults
    )


@pytest.mark.parametrize("is_our_runner", [True, False])
async def test_a_dead_kubelet_delays_a_verdict_only_for_a_moment(*, is_our_runner: bool) -> None:
    api = StoredObjects(jobs=live_job(condition="Failed"), pods=live_pod(terminated(3), phase="Failed"))
    inspector = inspector_of(api, LaunchReader(api, RunStore(api), ended_pods=lambda _: ()))
    ours = snapshot(is_our_runner=is_our_runner, foreign_log_tail=True).model_dump_json()
    request = InspectInput(
        run=RUN, job_name=JOB_NAME, job_uid=JOB_UID, snapshot=ours, pod_shape=shape_of_pod(live_pod())
    )
    async with asyncio.timeout(LOCAL_SECONDS.total_seconds()):
        report = await inspector.inspect_launch(request)
    assert LOCAL_SECONDS.total_seconds() > LOG_SECONDS
    assert report.verdict is not None
    assert report.verdict.reason is Reason.INPUT_FAILED


async def test_the_start_of_a_pod_that_is_gone_is_read_from_its_event() -> None:
    started = {
        "reason": "Started",
        "involvedObject": {"fieldPath": "spec.containers{inference}"},
        "firstTimestamp": "2026-11-21T07:10:00Z",
    }
    api = StoredObjects(jobs=live_job(), pods=live_pod(uid="pod-b"), events=started)
    inspector = inspector_of(api, LaunchReader(api, RunStore(api), ended_pods=lambda _: ()))
    request = InspectInput(
        run=RUN,
        job_name=JOB_NAME,
        job_uid=JOB_UID,
        snapshot=snapshot().model_dump_json(),
        pod_shape=shape_of_pod(live_pod()),
        pod_uid="pod-a",
    )
    report = await inspector.inspect_launch(request)
    assert (report.stage, report.started_at) == (LaunchStage.POD_LOST, "2026-11-21T07:10:00Z")


def succeeded_pod(*, image: str = "registry/own:1") -> Json:
    result = RunnerResult(reason=Reason.SUCCEEDED, message="done", delivery="ExactlyOnce")
    pod = live_pod(terminated(0, message=dump_result(result)), phase="Succeeded")
    pod["spec"]["containers"][0]["image"] = image
    return pod


async def report_on_watched(*, seen: Json, stored: Json, condition: str = "Complete") -> LaunchReport:
    """What is reported if the watch has seen the Job finish and one Pod end."""
    api = StoredObjects(jobs=live_job(), pods=stored)
    reader = LaunchReader(
        api,
        RunStore(api),
        ended_pods=lambda _: [PodEnd.of_pod(seen).as_pod()],
        watched_job=lambda _namespace, _name: live_job(condition=condition),
    )
    inspector = inspector_of(api, reader)
    ours = snapshot(is_our_runner=True).model_dump_json()
    request = InspectInput(
        run=RUN, job_name=JOB_NAME, job_uid=JOB_UID, snapshot=ours, pod_shape=shape_of_pod(live_pod())
    )
    return await inspector.inspect_launch(request)


async def test_a_success_that_the_watch_has_seen_is_not_read_again() -> None:
    report = await report_on_watched(seen=succeeded_pod(), stored=live_pod(terminated(3), phase="Failed"))
    assert report.verdict is not None
    assert (report.verdict.kind, report.verdict.delivery) == (VerdictKind.SUCCEEDED, "ExactlyOnce")
    assert report.verdict.pod_name == succeeded_pod()["metadata"]["name"]


@pytest.mark.parametrize(
    ("seen", "condition"),
    [
        (succeeded_pod(image="planted"), "Complete"),
        (live_pod(terminated(0, message="nothing"), phase="Succeeded"), "Complete"),
        (live_pod(terminated(3), phase="Failed"), "Failed"),
    ],
)
async def test_anything_but_a_success_is_read_from_the_api_server(seen: Json, condition: str) -> None:
    report = await report_on_watched(seen=seen, stored=live_pod(terminated(4), phase="Failed"), condition=condition)
    assert report.verdict is not None
    assert report.verdict.kind is VerdictKind.FAILED
