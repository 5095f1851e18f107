"""The shim's view of the cluster: the installation's live Jobs, their Pods, and quotas.

Caches with trimmed objects, shared by everything in the process; nothing here writes. Pods are
indexed by the UID of the Job that controls them. Pods that are terminal are not cached; their ends
are remembered for a while.
"""

import asyncio
from collections.abc import Callable, Iterable

from control.informer import Key
from control.launches.pod_end import PodEnd
from control.launches.trimming import IS_FULL, JOB_NAME_LABEL, trim_job, trim_pod, trim_quota
from control.namespaced_informers import NamespacedInformers
from control.temporal_calls import is_of_same_cluster
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import JOBS, PODS, QUOTAS, Object, controller_of, status_of
from inferrun.launches import pod_state
from inferrun.launches.manifests import SELECTOR
from inferrun.run_ref import RunRef
from operator_shim.run_terms import UNFINISHED, has_ended, is_schedule, quota
from operator_shim.run_watch import RunWatch, SharedParts

JOBS_LIMIT = 5_000
"""Jobs of which the ends of Pods are remembered, for as long as a stop may ask how a container
ended: with a termination message of up to 4 KiB for each Pod, 20 MiB if each Job has one."""

PODS_LIMIT = 256

LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of the Pods' LIST. The WATCH goes without: with it, the end of a Pod would not be
delivered."""

Wake = Callable[[Key], None]
"""Called with the key of a Job when it, one of its Pods or its run changed. Must return at once and
not raise."""

OnRoom = Callable[[str], None]
"""Called with a namespace in which runs wait for a quota and there may be room: a quota says so,
whoever made it, or a Job has ended, because a run that waits may delete it then. Must return at
once and not raise."""


class WorkloadWatch:
    """Run it as one task, beside the watch of runs. It shows what installations in the cluster of
    `installation` created."""

    def __init__(
        self, client: KubeClient, *, runs: RunWatch, namespaces: Namespaces, installation: str
    ) -> None:
        self._installation = installation
        self._runs = runs
        runs.subscribe(self._on_run)
        self._pods_by_job: dict[str, tuple[Object, ...]] = {}
        self._ends = PodEnds()
        self._subscriber: tuple[Wake, OnRoom] | None = None
        self._pauses: dict[str, str] = {}
        """What the statuses of runs say about their paused workflows, by the runs' UIDs."""
        self._share = SharedParts()
        self._jobs = NamespacedInformers(
            client,
            JOBS,
            namespaces=namespaces,
            selector=f"{SELECTOR},!{wellknown.LABEL_ENDED}",
            transform=self._take_job,
            listener=self._on_job,
        )
        self._pods = NamespacedInformers(
            client,
            PODS,
            namespaces=namespaces,
            selector=SELECTOR,
            list_params={"fieldSelector": LIVE_PODS},
            transform=self._take_pod,
            listener=self._on_pod,
        )
        self.quotas = NamespacedInformers(
            client,
            QUOTAS,
            namespaces=namespaces,
            transform=trim_quota,
            listener=self._on_quota,
            terms=lambda quota: [quota["metadata"]["namespace"]] if quota[IS_FULL] else [],
        )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in (self._jobs, self._pods, self.quotas):
                tasks.create_task(informer.run())

    async def synced(self) -> None:
        """Return once all collections but the quotas, without which only runs that wait for one
        wait longer, have been listed."""
        for informer in (self._runs, self._jobs, self._pods):
            await informer.synced()

    @property
    def is_synced(self) -> bool:
        """Whether `synced` would return at once."""
        return all(informer.is_synced for informer in (self._runs, self._jobs, self._pods))

    def job(self, key: Key) -> Object | None:
        """The Job of that key, unless its end is recorded."""
        return self._jobs.get(*key)

    def run_of(self, ref: RunRef) -> Object | None:
        """The run; None if it has finished, is gone, is another one of that name, or is a
        schedule."""
        run = self._runs.seen(ref)
        return None if run is None or has_ended(run) or is_schedule(run) else run

    def job_keys(self) -> Iterable[Key]:
        return self._jobs.keys()

    def all_runs(self) -> list[Object]:
        return [run for _, run in self._runs.find(UNFINISHED) if not is_schedule(run)]

    def pods_of(self, job_uid: str) -> tuple[Object, ...]:
        return self._pods_by_job.get(job_uid, ())

    def remembered_ends(self, job_uid: str) -> tuple[PodEnd, ...]:
        """How Pods of the Job ended, as far as it was seen in the last minutes."""
        return self._ends.of(job_uid)

    def note_pause(self, run: RunRef, text: str) -> None:
        """Its workflow is paused, as the text says; without a text, it is not."""
        if text == self.pause_of(run):
            return
        if text:
            self._pauses[run.uid] = text
        else:
            self._pauses.pop(run.uid, None)
        if (seen := self._runs.seen(run)) is not None and (name := job_name_of(seen)):
            self._wake((run.namespace, name))

    def pause_of(self, run: RunRef) -> str:
        """What the status of the run says about its paused workflow; empty if that is not
        paused."""
        return self._pauses.get(run.uid, "")

    def runs_without_room(self, namespace: str) -> list[RunRef]:
        """The runs whose Job a quota rejects, those first that have waited longest. Of a Job whose
        Pod is rejected, Kubernetes' controller tries again by itself.
        """
        waiting = self._runs.find(quota(namespace))
        return [
            RunRef.of(run) for _, run in waiting if self.job((namespace, job_name_of(run))) is None
        ]

    def subscribe(self, wake: Wake, *, on_room: OnRoom) -> None:
        """Call both from now on, for what their types say, and `on_room` for each namespace in
        which runs wait already."""
        self._subscriber = wake, on_room
        for namespace in {run["metadata"]["namespace"] for run in self.all_runs()}:
            self._report_room(namespace)

    def unsubscribe(self) -> None:
        self._subscriber = None

    def _take_job(self, job: Object) -> Object | None:
        if not self._is_ours(job):
            return None
        before = self._jobs.get(job["metadata"]["namespace"], job["metadata"]["name"])
        return trim_job(job, before=before, share=self._share)

    def _is_ours(self, item: Object) -> bool:
        label = (item["metadata"].get("labels") or {}).get(wellknown.LABEL_INSTALLATION)
        return is_of_same_cluster(label, installation=self._installation)

    def _take_pod(self, pod: Object) -> Object | None:
        """A Pod is found by the Job that controls it, which may have been taken over from an
        installation with another id."""
        if not self._is_ours(pod) and controller_of(pod) is None:
            return None
        if pod_state.is_terminal(pod) and controller_of(pod) is not None:
            self._ends.add(PodEnd.of_pod(pod))
        return trim_pod(pod, share=self._share)

    def _on_job(self, key: Key, _before: Object | None, after: Object | None) -> None:
        self._wake(key)
        if after is None:
            self._report_room(key[0])

    def _on_quota(self, key: Key, _before: Object | None, _after: Object | None) -> None:
        if not self.quotas.find(key[0]):
            self._report_room(key[0])

    def _report_room(self, namespace: str) -> None:
        if self._subscriber is not None and self._runs.find(quota(namespace)):
            self._subscriber[1](namespace)

    def _on_pod(self, key: Key, before: Object | None, after: Object | None) -> None:
        if before is not None:
            owner, uid = controller_of(before) or "", before["metadata"]["uid"]
            if others := tuple(one for one in self.pods_of(owner) if one["metadata"]["uid"] != uid):
                self._pods_by_job[owner] = others
            else:
                self._pods_by_job.pop(owner, None)
            is_gone = after is None or after["metadata"]["uid"] != uid
            if is_gone and not self._ends.has(before):
                self._ends.add(PodEnd.of_pod(before))
        if after is not None and (controller := controller_of(after)) is not None:
            self._pods_by_job[controller] = (*self.pods_of(controller), after)
        for pod in (before, after):
            job = (
                (pod["metadata"].get("labels") or {}).get(JOB_NAME_LABEL)
                if pod is not None
                else None
            )
            if job is not None:
                self._wake((key[0], job))
                return

    def _on_run(self, key: Key, before: Object | None, after: Object | None) -> None:
        if before is not None and after is None:
            self._pauses.pop(before["metadata"]["uid"], None)
        for name in {job_name_of(run) for run in (before, after) if run is not None} - {""}:
            self._wake((key[0], name))

    def _wake(self, key: Key) -> None:
        if self._subscriber is not None:
            self._subscriber[0](key)


def job_name_of(run: Object) -> str:
    """The name of the Job that the run's status names; empty without."""
    reference = status_of(run).get("jobStatus") or {}
    return str(reference.get("name") or "")


class PodEnds:
    """How Pods have ended, of the latest Jobs. A Job has few Pods, but users may plant others."""

    def __init__(self, *, limit: int = JOBS_LIMIT) -> None:
        self._limit = limit
        self._jobs: dict[str, dict[str, PodEnd]] = {}

    def add(self, end: PodEnd) -> None:
        """Remember an end; one that is known is replaced unless the new one knows less."""
        ends = self._jobs.setdefault(end.job_uid, {})
        known = ends.get(end.pod_uid)
        if known is None or end.exit_code is not None or known.exit_code is None:
            ends[end.pod_uid] = end
        if len(ends) > PODS_LIMIT:
            del ends[next(iter(ends))]
        if len(self._jobs) > self._limit:
            del self._jobs[next(iter(self._jobs))]

    def has(self, pod: Object) -> bool:
        return pod["metadata"]["uid"] in self._jobs.get(controller_of(pod) or "", ())

    def of(self, job_uid: str) -> tuple[PodEnd, ...]:
        """The ends of a Job's Pods, oldest first."""
        return tuple(self._jobs.get(job_uid, {}).values())
