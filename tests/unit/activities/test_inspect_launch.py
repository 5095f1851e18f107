"""The reading of a launch's end, where the cluster does not answer."""

import asyncio
from dataclasses import replace

import pytest

from activities.inspect_launch import LaunchInspector
from activities.launch_reader import LaunchReader
from control.launches.pod_end import PodEnd, write_ends
from control.trust.identity import SigningKey
from inferrun.kube.runs import RunStore
from inferrun.launches.pod_shape import shape_of_pod
from inferrun.launches.verdict import VerdictKind
from inferrun.reasons import Reason
from inferrun.run_defaults import Defaults
from inferrun.runner_report import RunnerResult, dump_result
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.launches import (
    INSTALLATION,
    JOB_NAME,
    JOB_UID,
    SHIM_KEY,
    ends_of,
    is_of_shim,
    live_job,
    live_pod,
)
from tests.unit.objects import RUN, Json, snapshot, terminated
from workflows.messages import InspectInput, LaunchReport, LaunchStage
from workflows.timing import ACTIVITIES


def inspector_of(api: StoredObjects, launches: LaunchReader) -> LaunchInspector:
    return LaunchInspector(api, RunStore(api), launches, installation=INSTALLATION)


@pytest.mark.parametrize("is_our_runner", [True, False])
async def test_a_dead_kubelet_delays_a_verdict_only_for_a_moment(*, is_our_runner: bool) -> None:
    api = StoredObjects(
        jobs=live_job(condition="Failed"), pods=live_pod(terminated(3), phase="Failed")
    )
    inspector = inspector_of(
        api, LaunchReader(api, RunStore(api), is_signer=is_of_shim, defaults=Defaults)
    )
    ours = snapshot(is_our_runner=is_our_runner, foreign_log_tail=True).model_dump_json()
    request = InspectInput(
        run=RUN,
        job_name=JOB_NAME,
        job_uid=JOB_UID,
        snapshot=ours,
        pod_shape=shape_of_pod(live_pod()),
    )
    async with asyncio.timeout(ACTIVITIES.local):
        report = await inspector.inspect_launch(request)
    assert report.verdict is not None
    assert report.verdict.reason is Reason.INPUT_FAILED


async def test_the_start_of_a_pod_that_is_gone_is_read_from_its_event() -> None:
    started = {
        "reason": "Started",
        "involvedObject": {"fieldPath": "spec.containers{inference}"},
        "firstTimestamp": "2026-11-21T07:10:00Z",
    }
    api = StoredObjects(jobs=live_job(), pods=live_pod(uid="pod-b"), events=started)
    inspector = inspector_of(
        api, LaunchReader(api, RunStore(api), is_signer=is_of_shim, defaults=Defaults)
    )
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


async def report_on_seen(
    *, seen: Json, stored: Json, condition: str = "Complete", ends: str | None = None
) -> LaunchReport:
    """What is reported if the shim has seen one Pod end, or has signalled these `ends`."""
    api = StoredObjects(jobs=live_job(condition=condition), pods=stored)
    reader = LaunchReader(api, RunStore(api), is_signer=is_of_shim, defaults=Defaults)
    inspector = inspector_of(api, reader)
    ours = snapshot(is_our_runner=True).model_dump_json()
    request = InspectInput(
        run=RUN,
        job_name=JOB_NAME,
        job_uid=JOB_UID,
        snapshot=ours,
        pod_shape=shape_of_pod(live_pod()),
        ends=ends_of(seen) if ends is None else ends,
    )
    return await inspector.inspect_launch(request)


async def test_a_success_that_the_watch_has_seen_is_not_read_again() -> None:
    report = await report_on_seen(
        seen=succeeded_pod(), stored=live_pod(terminated(3), phase="Failed")
    )
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
async def test_anything_but_a_success_is_read_from_the_api_server(
    seen: Json, condition: str
) -> None:
    report = await report_on_seen(
        seen=seen, stored=live_pod(terminated(4), phase="Failed"), condition=condition
    )
    assert report.verdict is not None
    assert report.verdict.kind is VerdictKind.FAILED


def forged_ends(pod: Json, *, job_uid: str = JOB_UID, key: SigningKey = SHIM_KEY) -> str:
    return write_ends([replace(PodEnd.of_pod(pod), job_uid=job_uid)], key=key)


@pytest.mark.parametrize(
    "ends",
    [
        "",
        "not signed",
        forged_ends(succeeded_pod(), key=SigningKey()),
        forged_ends(succeeded_pod(), job_uid="another"),
        ends_of(live_pod(terminated(3), phase="Failed")).replace('"exit_code":3', '"exit_code":0'),
    ],
    ids=["none", "garbage", "another program's", "another Job's", "changed"],
)
async def test_an_end_that_our_shim_has_not_signed_proves_nothing(ends: str) -> None:
    stored = live_pod(terminated(4), phase="Failed")
    report = await report_on_seen(
        seen=succeeded_pod(), stored=stored, condition="Failed", ends=ends
    )
    assert report.verdict is not None
    assert (report.verdict.kind, report.verdict.exit_code) == (VerdictKind.FAILED, 4)
