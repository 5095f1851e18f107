"""Pods of a run's Jobs without a node: no node has the CPU that they request, and the tests play
the kubelet.

Everything else is real: the API server, the Job controller, the scheduler, the garbage collector.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from secrets import token_hex
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from activities.config_reader import ConfigReader
from activities.delete_run import HistoryPruner
from activities.inspect_launch import LaunchInspector
from activities.launch_job import JobLauncher
from activities.launch_reader import LaunchReader
from activities.network_policy import NetworkPolicyCopier
from activities.record_outcome import OutcomeRecorder
from activities.stop_launch import LaunchStopper
from control.cluster.events import EventRecorder
from control.launches import job_state
from control.trust.identity import Installation
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import EVENTS, JOBS, PODS, QUOTAS, Object
from inferrun.kube.runs import RunStore
from inferrun.launches import manifests
from inferrun.names import verify_job_name
from inferrun.resources import InferenceRun
from inferrun.run_defaults import Defaults
from inferrun.runner_report import Output, OutputFinding, OutputState, RecordCounts
from inferrun.temporal.plugin import inferrun_plugin
from tests.integration.control.proxy import Proxy
from tests.integration.waiting import create_quota, eventually
from tests.unit.launches import INSTALLATION, is_of_shim, no_postponement
from workflows.messages import (
    InspectInput,
    LaunchInput,
    LaunchReport,
    LaunchResult,
    StopLaunchInput,
    StopLaunchResult,
)

NOWHERE = {"requests": {"cpu": "4000"}}
IMAGE = "localhost/inferrun-tests/absent:1"
"""The image that the configs of these tests name, which no node has."""

FILE = {"file": {"claimName": "data", "path": "out"}}
COMMITTED = OutputFinding(
    state=OutputState.COMMITTED,
    message="9 of 9 records predicted",
    records=RecordCounts(total=9, completed=9),
    delivery="ExactlyOnce",
    output=Output(location="data/out", manifest="data/out/manifest.json"),
)
STARTED = "2026-11-21T08:00:00Z"
FINISHED = "2026-11-21T08:01:00Z"


class Launched:
    """A run whose first Job exists, and its Pod."""

    def __init__(self, api: KubeClient, run: InferenceRun, result: LaunchResult) -> None:
        self.api = api
        self.run = run
        self.result = result
        self.store = RunStore(api)

    @property
    def namespace(self) -> str:
        return self.run.metadata.namespace

    async def pod(self, *, other_than: str = "") -> Object:
        """The Job's Pod, once its controller has made it."""
        selector = f"batch.kubernetes.io/job-name={self.result.job_name}"

        async def look() -> Object | None:
            items = (await self.api.list(PODS, self.namespace, labelSelector=selector))["items"]
            return next((item for item in items if item["metadata"]["uid"] != other_than), None)

        return await eventually(look, what="the Job's Pod")

    async def tell(
        self,
        state: Object | None,
        *,
        phase: str,
        beside: Object | None = None,
        pod: Object | None = None,
        **more: Any,
    ) -> Object:
        """What a kubelet would say of the Pod; `beside` is the state of a container that a webhook
        has added."""
        pod = pod or await self.pod()
        container = {
            "name": manifests.CONTAINER,
            "image": pod["spec"]["containers"][0]["image"],
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": state,
        }
        others = [{**container, "name": "injected", "state": beside}] if beside is not None else []
        containers = [container, *others] if state is not None else []
        status = {"phase": phase, "containerStatuses": containers, **more}
        return await self.api.patch(
            PODS, self.namespace, pod["metadata"]["name"], {"status": status}, sub="status"
        )

    async def runs(self, *, pod: Object | None = None) -> Object:
        """The container has started."""
        return await self.tell({"running": {"startedAt": STARTED}}, phase="Running", pod=pod)

    async def ends(
        self, code: int, *, message: str = "", beside: Object | None = None, **more: Any
    ) -> None:
        """The container has ended; the Job's controller draws its conclusion, unless another one
        runs on beside it."""
        ended = {
            "exitCode": code,
            "reason": "Completed" if code == 0 else "Error",
            "message": message,
            "startedAt": STARTED,
            "finishedAt": FINISHED,
        }
        runs_on = beside is not None and "running" in beside
        phase = "Running" if runs_on else "Failed" if code else "Succeeded"
        await self.tell({"terminated": ended}, phase=phase, beside=beside, **more)

    async def job(self) -> Object:
        return await self.api.get(JOBS, self.namespace, self.result.job_name)

    async def job_is_gone(self) -> bool:
        """Whether no Job has that name, or it is being deleted."""
        try:
            return bool((await self.job())["metadata"].get("deletionTimestamp"))
        except NotFound:
            return True

    def verifying(self, *, is_final: bool = False) -> "Launched":
        """The Job that verifies its output, and that Job's Pod."""
        name = verify_job_name(self.result.job_name, 1, is_final=is_final)
        return Launched(self.api, self.run, self.result.model_copy(update={"job_name": name}))

    @property
    def known(self) -> dict[str, Any]:
        """What the workflow tells each activity about the launch."""
        kept = {"job_name", "job_uid", "snapshot", "pod_shape"}
        return {"run": self.run.ref, **self.result.model_dump(include=kept)}

    async def inspect(
        self, *, installation: Installation = INSTALLATION, **changes: Any
    ) -> LaunchReport:
        """The report of a worker that has just started."""
        runs = RunStore(self.api)
        inspector = LaunchInspector(self.api, runs, reader_of(self.api), installation=installation)
        request = InspectInput(**self.known | changes)
        report: LaunchReport = await ActivityEnvironment().run(inspector.inspect_launch, request)
        return report

    async def stop(
        self, *, stopper: LaunchStopper | None = None, **changes: Any
    ) -> StopLaunchResult:
        """Stop it, by a worker that has just started."""
        request = StopLaunchInput(**{"grace_seconds": 10, **self.known, **changes})
        stopping = (stopper or stopper_of(self.api)).stop_launch
        result: StopLaunchResult = await ActivityEnvironment().run(stopping, request)
        return result

    async def is_finished(self) -> None:
        """Return once the Job is terminal."""

        async def look() -> Object | None:
            job = await self.job()
            return job if job_state.is_finished(job) else None

        await eventually(look, what="the Job to end")

    async def now(self) -> InferenceRun:
        """The run as it is stored."""
        found = await self.store.read(self.run.ref)
        assert found is not None
        return found

    async def says(self, reason: str) -> InferenceRun:
        """The run, once its status says that."""

        async def look() -> InferenceRun | None:
            run = await self.now()
            return run if run.status.reason == reason else None

        return await eventually(look, what=f"the status to say {reason}")

    async def events(self) -> list[tuple[str, str]]:
        """The Events on the run: (reason, type)."""
        selector = f"involvedObject.uid={self.run.metadata.uid}"
        found = await self.api.list(EVENTS, self.namespace, fieldSelector=selector)
        return [(item["reason"], item["type"]) for item in found["items"]]


@asynccontextmanager
async def only_one_job_more(api: KubeClient, namespace: str, *, than: int) -> AsyncIterator[None]:
    """A quota that is in force: the namespace may have one Job more than so many."""
    stored = await create_quota(api, namespace, f"jobs-{token_hex(4)}", JOBS, hard=than + 1)
    try:
        yield
    finally:
        await api.delete(
            QUOTAS, namespace, stored["metadata"]["name"], uid=stored["metadata"]["uid"]
        )


async def launch_without_status(launcher: JobLauncher, run: InferenceRun, proxy: Proxy) -> None:
    """What a worker leaves that is killed before the status names the Job."""
    proxy.answer_patches = 503
    with pytest.raises(Exception, match="as asked"):
        await launch(launcher, run)
    proxy.answer_patches = None


def launcher_of(
    api: KubeClient,
    *,
    installation: Installation = INSTALLATION,
    runner_image: str = "",
    account: str = "",
    defaults: Callable[[], Defaults] | None = None,
    network_policy: NetworkPolicyCopier | None = None,
) -> JobLauncher:
    """The activity's instance; the image is that of the built-in runner."""
    given = Defaults(runner_image=runner_image) if runner_image else Defaults()
    return JobLauncher(
        api,
        RunStore(api),
        installation=installation,
        defaults=defaults or (lambda: given),
        runner_account=account,
        events=EventRecorder(api, reporter="tests"),
        network_policy=network_policy or NetworkPolicyCopier(api, name="", home=""),
    )


def reader_of(api: KubeClient) -> LaunchReader:
    """Believes what the shim of the tests has signed."""
    return LaunchReader(api, RunStore(api), is_signer=is_of_shim, defaults=Defaults)


def stopper_of(api: KubeClient) -> LaunchStopper:
    """The activity's instance."""
    return LaunchStopper(api, RunStore(api), reader_of(api))


async def recorder_of(api: KubeClient, *, pruner: HistoryPruner | None = None) -> OutcomeRecorder:
    """The activity's instance; its Temporal client never connects."""
    events = EventRecorder(api, reporter="tests")
    return OutcomeRecorder(
        api,
        RunStore(api),
        events=events,
        temporal=await Client.connect("127.0.0.1:1", lazy=True, plugins=[inferrun_plugin()]),
        installation=INSTALLATION,
        configs=ConfigReader(api, defaults=Defaults, runner_account=""),
        defaults=Defaults,
        pruner=pruner or HistoryPruner(api, RunStore(api), events=events, postpone=no_postponement),
    )


async def launch(
    launcher: JobLauncher, run: InferenceRun, *, tries: int = 1, **changes: Any
) -> LaunchResult:
    """Launch a run; `tries` is the number of this try of the activity."""
    environment = ActivityEnvironment()
    environment.info = replace(environment.info, attempt=tries)
    result: LaunchResult = await environment.run(
        launcher.launch_job, LaunchInput(run=run.ref, **changes)
    )
    return result


async def jobs_of(api: KubeClient, run: InferenceRun) -> list[Object]:
    """The Jobs with the run's label."""
    selector = f"inferrun.dev/run-uid={run.metadata.uid}"
    return list((await api.list(JOBS, run.metadata.namespace, labelSelector=selector))["items"])


async def launched(api: KubeClient, launcher: JobLauncher, run: InferenceRun) -> Launched:
    """Launch a run."""
    result = await launch(launcher, run)
    assert result.job_uid, result.message
    return Launched(api, run, result)
