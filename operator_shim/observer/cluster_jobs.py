"""Reads and repairs Jobs that the watch does not show as expected: gone, unlabelled, or left over.

Everything is done by UID and is idempotent, so that two observers at once do no harm.
"""

from collections.abc import Callable
from contextlib import suppress

from control.cluster.config_maps import find_config_map
from control.cluster.job_marks import end_job, watch_again
from control.launches import job_state
from control.launches.observation import Launch, is_launch_left_over
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import JOBS, RUNS, Object, status_of, uid_of
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.reasons import Phase
from inferrun.resources import parse_run
from inferrun.run_defaults import Defaults


class ClusterJobs:
    """What the observer does with single Jobs on the API server. Each method raises KubeError."""

    def __init__(
        self, api: KubeClient, *, installation: str, defaults: Callable[[], Defaults]
    ) -> None:
        self._api = api
        self._installation = installation
        self._defaults = defaults

    async def find(self, launch: Launch) -> Object | None:
        """The Job of the launch's name on the API server; None if it does not exist. If it is the
        launch's and has not finished, the labels by which it is watched are restored.
        """
        job = await self._api.find(JOBS, launch.run.namespace, launch.job_name)
        if job is not None and uid_of(job) == launch.job_uid and not job_state.is_finished(job):
            await watch_again(self._api, launch, job, installation=self._installation)
        return job

    async def withdraw(self, launch: Launch) -> None:
        """End the Job if nothing follows it any more, because its run has ended or is past this
        launch: delete it, or set its time to live if it has finished. The Job of a run that has
        succeeded finishes by itself.
        """
        run = await self._api.find(RUNS, launch.run.namespace, launch.run.name)
        if run is not None and uid_of(run) != launch.run.uid:
            run = None
        if not is_launch_left_over(run, launch=launch):
            return
        job = await self._api.find(JOBS, launch.run.namespace, launch.job_name)
        if job is None or uid_of(job) != launch.job_uid:
            return
        if not job_state.is_finished(job):
            status = status_of(run or {})
            if (
                status.get("phase") == Phase.SUCCEEDED
                and (status.get("jobStatus") or {}).get("uid") == launch.job_uid
            ):
                return
            await self._api.delete_if_present(
                JOBS, launch.run.namespace, launch.job_name, uid=launch.job_uid
            )
            return
        compiled, seconds = None, self._defaults().job_ttl_seconds
        if run is not None:
            with suppress(LaunchBlocked):
                compiled = await find_config_map(self._api, parse_run(run))
        if compiled is not None:
            seconds = compiled.snapshot.ttl_seconds_after_finished
        await end_job(self._api, launch.run, launch.job_name, uid=launch.job_uid, seconds=seconds)
