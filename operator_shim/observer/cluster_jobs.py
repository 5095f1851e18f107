"""Reads and repairs Jobs that the watch does not show as expected: gone, unlabelled, or left over.

Everything is done by UID and is idempotent, so that two observers at once do no harm.
"""

import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

from activities.judging.job_marks import end_job, watch_again
from activities.launching.config_maps import read_time_to_live
from activities.objects.deletion import delete_if_present
from activities.objects.object_metadata import uid_of
from activities.watching import job_state
from activities.watching.observation import Launch, is_launch_left_over
from control.cluster_identity import is_of_same_cluster
from control.informer import Key
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import JOBS, RUNS, Object
from inferrun.reasons import Phase
from inferrun.resources import parse_run
from inferrun.run_defaults import Defaults

logger = logging.getLogger(__name__)

TAKEN_AGAIN_SECONDS: Final = 600.0
"""Until a Job that got the label of another cluster's installation again is taken from it again: two installations with
different cluster ids must not change a Job in turn for as long as it runs."""

REMEMBERED: Final = 20_000


class JobAccess(Protocol):
    """What the observer does with single Jobs on the API server. Each method raises KubeError."""

    async def find(self, key: Key) -> Object | None:
        """The Job as the API server has it; None if there is none."""

    async def watch_again(self, launch: Launch, job: Object) -> None:
        """Restore the labels by which the Job is watched, if it has not got them."""

    async def withdraw(self, launch: Launch) -> None:
        """End the Job if nothing follows it any more, because its run has ended or is past this launch."""


class ClusterJobs:
    """`JobAccess` for the API server."""

    def __init__(
        self,
        api: KubeClient,
        *,
        installation: str,
        defaults: Callable[[], Defaults],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._now = now
        self._taken_at: dict[str, float] = {}
        self._installation = installation
        self._defaults = defaults

    async def find(self, key: Key) -> Object | None:
        """The Job, None if there is none."""
        try:
            return await self._api.get(JOBS, *key)
        except NotFound:
            return None

    async def watch_again(self, launch: Launch, job: Object) -> None:
        """Restore its labels, unless another installation labels it, too."""
        if self._is_contested(launch, job):
            return
        await watch_again(self._api, launch, job, installation=self._installation)

    def _is_contested(self, launch: Launch, job: Object) -> bool:
        """Whether an installation of another cluster has labelled the Job after this one has. Notes that this one does."""
        creator = str((job["metadata"].get("labels") or {}).get(wellknown.LABEL_INSTALLATION) or "")
        if not creator or is_of_same_cluster(creator, installation=self._installation):
            return False
        taken_at, now = self._taken_at.get(launch.job_uid), self._now()
        if taken_at is not None and now - taken_at < TAKEN_AGAIN_SECONDS:
            return True
        if taken_at is not None:
            fields = {"job": launch.job_name, "creator": creator[:128]}
            logger.warning("another installation serves the same runs; set watchNamespace of both", extra=fields)
        self._taken_at[launch.job_uid] = now
        if len(self._taken_at) > REMEMBERED:
            del self._taken_at[next(iter(self._taken_at))]
        return False

    async def withdraw(self, launch: Launch) -> None:
        """Delete the Job, or set its time to live if it has finished. The Job of a run that has succeeded finishes by itself."""
        run = await self._run_of(launch)
        if not is_launch_left_over(run, launch=launch):
            return
        job = await self.find((launch.run.namespace, launch.job_name))
        if job is None or uid_of(job) != launch.job_uid:
            return
        if not job_state.is_finished(job):
            if run is not None and _has_succeeded_with(run, launch):
                return
            await delete_if_present(self._api, JOBS, launch.run.namespace, launch.job_name, uid=launch.job_uid)
            return
        seconds = default = self._defaults().job_ttl_seconds
        if run is not None:
            seconds = await read_time_to_live(self._api, parse_run(run), default=default)
        await end_job(self._api, launch.run, launch.job_name, uid=launch.job_uid, seconds=seconds)

    async def _run_of(self, launch: Launch) -> Object | None:
        """The Job's run, None if it is gone."""
        try:
            run = await self._api.get(RUNS, launch.run.namespace, launch.run.name)
        except NotFound:
            return None
        return run if uid_of(run) == launch.run.uid else None


def _has_succeeded_with(run: Object, launch: Launch) -> bool:
    status = run.get("status") or {}
    return status.get("phase") == Phase.SUCCEEDED and (status.get("jobStatus") or {}).get("uid") == launch.job_uid
