"""`InspectLaunch`: reads from the cluster how far a launch has got, and how it ended if it has.

What the next Pod needs is provided if another client has removed it: without the run's ConfigMap it cannot start, and a Job whose
parallelism is 0 has none.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from temporalio import activity

from activities.cluster.config_maps import ConfigMaps
from activities.cluster.ended_jobs import make_room_for_pod
from activities.cluster.job_marks import mark_limited, start_job
from activities.cluster.launch_reader import LaunchReader
from activities.cluster.pod_logs import PodLogs
from activities.installation import Installation
from activities.rules import pod_state
from activities.rules.launch_blocked import LaunchBlocked
from activities.rules.launch_report import LaunchObjects, report_on
from activities.rules.object_metadata import name_of
from activities.rules.snapshot import Snapshot
from inferrun.control.run_defaults import Defaults
from inferrun.kube.client import KubeClient
from inferrun.kube.runs import RunStore
from inferrun.resources.status import LOG_LIMIT
from inferrun.runner_report import last_messages
from inferrun.text import one_line
from workflows import activity_options
from workflows.messages import InspectInput, LaunchReport, LaunchStage, VerdictKind

LOG_SECONDS = 2.0
"""How long a verdict waits for the log: less than the activity's own time limit, because the kubelet may be dead and the
reads of all runs share a budget."""


class LaunchInspector:
    """One instance serves all runs of a worker."""

    def __init__(
        self,
        api: KubeClient,
        runs: RunStore,
        launches: LaunchReader,
        *,
        installation: Installation,
        logs: PodLogs,
        defaults: Callable[[], Defaults],
    ) -> None:
        self._api = api
        self._runs = runs
        self._installation = installation
        self._config_maps = ConfigMaps(api, installation=installation)
        self._defaults = defaults
        self._launches = launches
        self._logs = logs

    @activity.defn(name=activity_options.INSPECT.name)
    async def inspect_launch(self, request: InspectInput) -> LaunchReport:
        """The state of the launch, with its verdict if it ended."""
        snapshot = await self._launches.snapshot(request)
        is_divided = snapshot is not None and snapshot.shards > 1  # then Pods that have not ended say since when it ran
        seen = None if is_divided else self._launches.watched_end(request)
        if seen is not None:
            report = self._report(request, seen, snapshot)
            if report.verdict is not None and report.verdict.kind is VerdictKind.SUCCEEDED:
                return report
        objects = await self._launches.objects(request)
        report = self._report(request, objects, snapshot)
        report = await self._launches.with_start(request, report)
        report = await self._launches.with_suspension(request, report)
        if request.seconds_left is not None and objects.job is not None and report.stage is not LaunchStage.ENDED:
            await mark_limited(self._api, objects.job, seconds_left=request.seconds_left)
        if report.stage in (LaunchStage.WAITING, LaunchStage.POD_LOST):
            await self._provide_for_next_pod(request, objects)
        return await self._with_log_tail(request, objects, report, snapshot)

    async def _provide_for_next_pod(self, request: InspectInput, objects: LaunchObjects) -> None:
        """Start the Job again if another client has set its parallelism to 0, make room for its Pod in a quota, and write the run's
        ConfigMap again if it was deleted. One that another client created in its place is left alone.
        """
        if objects.job is not None:
            await start_job(self._api, objects.job)
            if not objects.pods:
                await make_room_for_pod(self._api, request.run, objects.job, installation=self._installation.id)
        run = await self._runs.read(request.run) if request.snapshot else None
        if run is None:
            return
        with suppress(LaunchBlocked):
            await self._config_maps.find_or_restore(run, snapshot=request.snapshot)

    def _report(self, request: InspectInput, objects: LaunchObjects, snapshot: Snapshot | None) -> LaunchReport:
        now = self._api.now()
        report = report_on(
            objects,
            snapshot=snapshot,
            pod_uid=request.pod_uid,
            node_lost_seconds=self._defaults().node_lost_seconds,
            now=now,
        )
        return report.model_copy(update={"cluster_time": now})

    async def _with_log_tail(
        self, request: InspectInput, objects: LaunchObjects, report: LaunchReport, snapshot: Snapshot | None
    ) -> LaunchReport:
        """Add the end of the log of a container that failed: of a custom image only if the operator allows that."""
        verdict = report.verdict
        named = [pod for pod in objects.pods if verdict is not None and name_of(pod) == verdict.pod_name]
        pod = pod_state.newest(named or objects.pods)
        if verdict is None or not verdict.exit_code or pod is None or snapshot is None:
            return report
        if not snapshot.is_our_runner and not snapshot.foreign_log_tail:
            return report
        log = await self._tail(request.run.namespace, name_of(pod))
        if snapshot.is_our_runner:
            messages = last_messages(log, limit=LOG_LIMIT)
            return report.model_copy(update={"verdict": verdict.model_copy(update={"log": messages})})
        tail = one_line(log)
        if not tail:
            return report
        return report.model_copy(
            update={"verdict": verdict.model_copy(update={"message": f"{verdict.message}; log: {tail}"})}
        )

    async def _tail(self, namespace: str, pod: str) -> str:
        """The end of the log, empty if it does not arrive in time."""
        try:
            async with asyncio.timeout(LOG_SECONDS):
                return await self._logs.tail(namespace, pod)
        except TimeoutError:
            return ""
