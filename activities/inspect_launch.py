"""`InspectLaunch`: reads from the cluster how far a launch has got, and how it ended if it has.

What the next Pod needs is provided if another client has removed it: without the run's ConfigMap it
cannot start, and a Job whose parallelism is 0 has none.
"""

import asyncio
from contextlib import suppress

from temporalio import activity

from activities.launch_reader import LaunchReader
from control.cluster.config_maps import ConfigMaps
from control.cluster.job_marks import make_room_for_pod, mark_limited, start_job
from control.cluster.job_objects import read_log
from control.cluster.signers import Signatures
from control.launches.launch_report import LaunchObjects
from control.trust.identity import Installation
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NOT_ADMITTED, KubeError
from inferrun.kube.objects import Object, name_of
from inferrun.kube.runs import RunStore
from inferrun.launches import pod_state
from inferrun.launches.launch_blocked import LaunchBlocked, not_admitted
from inferrun.launches.manifests import CONTAINER
from inferrun.launches.snapshot import Snapshot
from inferrun.launches.verdict import VerdictKind
from inferrun.reasons import Phase
from inferrun.resources import InferenceRun, InferenceRunStatus
from inferrun.resources.status import LOG_LIMIT
from inferrun.run_status import status_after
from inferrun.runner_report import last_messages
from inferrun.text import one_line
from workflows import activity_options
from workflows.messages import InspectInput, LaunchReport, LaunchStage
from workflows.timing import ACTIVITIES


class LaunchInspector:
    def __init__(
        self, api: KubeClient, runs: RunStore, launches: LaunchReader, *, installation: Installation
    ) -> None:
        self._api = api
        self._runs = runs
        self._installation = installation
        self._config_maps = ConfigMaps(api, Signatures(api, installation=installation))
        self._launches = launches

    @activity.defn(name=activity_options.INSPECT.name)
    async def inspect_launch(self, request: InspectInput) -> LaunchReport:
        """The state of the launch, with its verdict if it ended."""
        snapshot = await self._launches.snapshot(request)
        # then Pods that have not ended say since when it ran
        is_divided = snapshot is not None and snapshot.shards > 1
        ended, _ = await self._launches.ended_pods(request, shape=request.pod_shape)
        if ended and not is_divided:
            seen = LaunchObjects(None, [], ended_pods=tuple(ended))
            report = await self._launches.report(request, seen, snapshot=snapshot)
            if report.verdict is not None and report.verdict.kind is VerdictKind.SUCCEEDED:
                return report
        objects = await self._launches.objects(request)
        report = await self._launches.report(request, objects, snapshot=snapshot)
        report = await self._launches.with_suspension(request, report)
        if (
            request.seconds_left is not None
            and objects.job is not None
            and report.stage is not LaunchStage.ENDED
        ):
            await mark_limited(self._api, objects.job, seconds_left=request.seconds_left)
        if report.stage in (LaunchStage.WAITING, LaunchStage.POD_LOST):
            # The next Pod needs a Job that is started, room in a quota, and the run's ConfigMap.
            # One that another client created in its place is left alone.
            if objects.job is not None:
                await self._start_job(request, objects.job)
                if not objects.pods:
                    await make_room_for_pod(
                        self._api, request.run, objects.job, installation=self._installation.id
                    )
            run = await self._runs.read(request.run) if request.snapshot else None
            if run is not None:
                with suppress(LaunchBlocked):
                    await self._config_maps.find_or_restore(run, snapshot=request.snapshot)
        return await self._with_log_tail(request, objects, report, snapshot)

    async def _start_job(self, request: InspectInput, job: Object) -> None:
        """Start a Job that may have no Pod; what prevents that is published, and the activity is
        tried again."""
        try:
            await start_job(self._api, job)
        except NOT_ADMITTED as error:
            blocker = not_admitted(f"the start of Job {name_of(job)}", error)

            def decide(run: InferenceRun) -> InferenceRunStatus:
                now = self._api.now()
                return status_after(
                    run,
                    phase=Phase.PENDING,
                    reason=blocker.reason,
                    message=blocker.message,
                    now=now,
                )

            await self._runs.update_status(request.run, decide)
            raise

    async def _with_log_tail(
        self,
        request: InspectInput,
        objects: LaunchObjects,
        report: LaunchReport,
        snapshot: Snapshot | None,
    ) -> LaunchReport:
        """Add the end of the log of a container that failed: of a custom image only if the operator
        allows that."""
        verdict = report.verdict
        named = [
            pod for pod in objects.pods if verdict is not None and name_of(pod) == verdict.pod_name
        ]
        pod = pod_state.newest(named or objects.pods)
        if verdict is None or not verdict.exit_code or pod is None or snapshot is None:
            return report
        if not snapshot.is_our_runner and not snapshot.foreign_log_tail:
            return report
        log = ""
        with suppress(KubeError, TimeoutError):  # then it is left out
            async with asyncio.timeout(ACTIVITIES.log):
                log = await read_log(
                    self._api, request.run.namespace, name_of(pod), container=CONTAINER
                )
        update = {}
        if snapshot.is_our_runner:
            update["log"] = last_messages(log, limit=LOG_LIMIT)
        elif tail := one_line(log):
            update["message"] = f"{verdict.message}; log: {tail}"
        return report.model_copy(update={"verdict": verdict.model_copy(update=update)})
