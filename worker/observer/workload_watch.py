"""The worker's view of the cluster: the installation's live Jobs, their Pods, the runs that have not finished, and quotas.

Caches with trimmed objects, shared by everything in the process; nothing here writes. Pods are indexed by the
UID of the Job that controls them. Pods that are terminal are not cached; their ends are remembered for a while.
"""

import asyncio
import json
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from activities.cluster.new_runs import NewRuns
from activities.rules import pod_state
from activities.rules.manifests import SELECTOR
from activities.rules.object_metadata import controller_of
from activities.rules.pod_end import PodEnd
from activities.rules.trimming import (
    CONTROLLER_UID_LABEL,
    IS_FULL,
    JOB_NAME_LABEL,
    trim_job,
    trim_pod,
    trim_quota,
    trim_run,
)
from inferrun import wellknown
from inferrun.control.cluster_identity import is_of_same_cluster
from inferrun.kube.client import KubeClient
from inferrun.kube.informer import Key
from inferrun.kube.namespaced_informers import NamespacedInformers
from inferrun.kube.namespaces import ALL, Namespaces, Served
from inferrun.kube.objects import JOBS, PODS, QUOTAS, RUNS, Object
from inferrun.reasons import Reason
from inferrun.run_ref import RunRef

ENDS_KEPT_SECONDS = 600.0
ENDS_LIMIT = 20_000
"""Ends of Pods that are remembered, for as long as a stop may ask how its container ended."""

MESSAGES_LIMIT = 2_000
"""Of these ends, how many keep their termination messages of up to 4 KiB: most are judged within a second."""

ORPHANS_LIMIT = 1_000
"""Pods that are remembered because their Job left them behind; anybody who may create Pods can plant some."""

SHARED_LIMIT = 2_000
"""Distinct parts of objects that are remembered for sharing; beyond that, sharing begins anew."""

LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"
"""Field selector of the Pods' LIST. The WATCH goes without: with it, the end of a Pod would not be delivered."""

Wake = Callable[[Key], None]
"""Called with the key of a Job when it, one of its Pods or its run changed. Must return at once and not raise."""


OnBegin = Callable[[], None]
"""Called when the runs of a namespace are served from now on. Must return at once and not raise."""


OnRoom = Callable[[str], None]
"""Called with a namespace in which runs wait for a quota and there may be room. Must return at once and not raise."""


@dataclass(frozen=True)
class _Subscription:
    wake: Wake
    on_begin: OnBegin
    on_room: OnRoom


class WorkloadWatch:
    """Run it as one task beside the worker. It shows what installations in the cluster of `installation` created."""

    def __init__(self, client: KubeClient, *, namespaces: Namespaces, installation: str, served: Served = ALL) -> None:
        self._installation = installation
        self._pods_by_job: dict[str, tuple[Object, ...]] = {}
        self._ends = PodEnds()
        self._orphans = OrphanedPods()
        self._subscriptions: list[_Subscription] = []
        self._without_room: dict[str, dict[Key, None]] = {}
        """The runs that wait for a quota, by namespace, in the order in which they began to."""
        self._share = SharedParts()
        self.new_runs = NewRuns()
        self.jobs = NamespacedInformers(
            client,
            JOBS,
            namespaces=namespaces,
            served=served,
            selector=f"{SELECTOR},!{wellknown.LABEL_ENDED}",
            transform=self._take_job,
            listener=self._on_job,
        )
        self.pods = NamespacedInformers(
            client,
            PODS,
            namespaces=namespaces,
            served=served,
            selector=SELECTOR,
            list_params={"fieldSelector": LIVE_PODS},
            transform=self._take_pod,
            listener=self._on_pod,
        )
        self.runs = NamespacedInformers(
            client, RUNS, namespaces=namespaces, served=served, transform=self._take_run, listener=self._on_run
        )
        self.quotas = NamespacedInformers(
            client, QUOTAS, namespaces=namespaces, served=served, transform=trim_quota, listener=self._on_quota
        )

    def begin(self, namespace: str) -> None:
        """The namespace is served from now on; empty: all that are."""
        for informer in (self.pods, self.jobs, self.runs):
            informer.begin(namespace)
        for subscription in self._subscriptions:
            subscription.on_begin()

    async def run(self) -> None:
        """Follow the collections until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in (self.jobs, self.pods, self.runs, self.quotas):
                tasks.create_task(informer.run())

    async def synced(self) -> None:
        """Return once all collections but the quotas, without which only runs that wait for one wait longer, have been listed."""
        for informer in (self.jobs, self.pods, self.runs):
            await informer.synced()

    @property
    def is_synced(self) -> bool:
        """The same."""
        return all(informer.is_synced for informer in (self.jobs, self.pods, self.runs))

    def job(self, key: Key) -> Object | None:
        """The Job of that key, unless its end is recorded."""
        return self.jobs.get(*key)

    def run_of(self, ref: RunRef) -> Object | None:
        """The run; None if it has finished, is gone, or is another one of that name."""
        run = self.runs.get(ref.namespace, ref.name)
        return run if run is not None and run["metadata"]["uid"] == ref.uid else None

    def job_keys(self) -> Iterable[Key]:
        """The keys of all live Jobs."""
        return self.jobs.keys()

    def all_runs(self) -> Iterable[Object]:
        """The runs that have not finished."""
        return [run for _, run in self.runs.items()]

    def pods_of(self, job_uid: str) -> tuple[Object, ...]:
        """The Job's Pods that are not terminal."""
        return self._pods_by_job.get(job_uid, ())

    def remembered_ends(self, job_uid: str) -> tuple[PodEnd, ...]:
        """How Pods of the Job ended, as far as it was seen in the last minutes."""
        return self._ends.of(job_uid)

    def orphans_of(self, job_uid: str) -> tuple[Object, ...]:
        """The Pods that the Job left behind when it was deleted without them, as far as they have not ended; only their names."""
        return self._orphans.of(job_uid)

    def namespaces_without_room(self) -> list[str]:
        """The namespaces in which runs wait for a quota."""
        return list(self._without_room)

    def runs_without_room(self, namespace: str) -> list[RunRef]:
        """The runs whose Job a quota rejects, those first that have waited longest. Of a Job whose Pod is rejected, Kubernetes'
        controller tries again by itself.
        """
        waiting = [run for key in self._without_room.get(namespace, ()) if (run := self.runs.get(*key)) is not None]
        return [
            RunRef(namespace=namespace, name=run["metadata"]["name"], uid=run["metadata"]["uid"])
            for run in waiting
            if self.job((namespace, job_name_of(run))) is None
        ]

    def subscribe(
        self, wake: Wake, *, on_begin: OnBegin = lambda: None, on_room: OnRoom = lambda _namespace: None
    ) -> None:
        """Call `wake` for every change from now on, and the others for what their types say."""
        self._subscriptions.append(_Subscription(wake, on_begin, on_room))

    def unsubscribe(self, wake: Wake) -> None:
        """End the subscription of `wake`."""
        self._subscriptions = [one for one in self._subscriptions if one.wake != wake]

    def _take_job(self, job: Object) -> Object | None:
        if not self._is_ours(job):
            return None
        return trim_job(job, before=self.jobs.get(job["metadata"]["namespace"], job["metadata"]["name"]))

    def _is_ours(self, item: Object) -> bool:
        label = (item["metadata"].get("labels") or {}).get(wellknown.LABEL_INSTALLATION)
        return is_of_same_cluster(label, installation=self._installation)

    def _take_pod(self, pod: Object) -> Object | None:
        """A Pod is found by the Job that controls it, which may have been taken over from an installation with another id."""
        if not self._is_ours(pod) and controller_of(pod) is None:
            return None
        if pod_state.is_terminal(pod) and controller_of(pod) is not None:
            self._ends.add(PodEnd.of_pod(pod), now=_now())
        self._orphans.observe(pod)
        return trim_pod(pod, share=self._share)

    def _take_run(self, run: Object) -> Object | None:
        self.new_runs.observe(run, now=_now())
        return trim_run(run, share=self._share)

    def _on_job(self, key: Key, _before: Object | None, after: Object | None) -> None:
        self._wake(key)
        if after is None:
            self._report_room(key[0])

    def _on_quota(self, key: Key, _before: Object | None, _after: Object | None) -> None:
        if key[0] in self._without_room and not any(
            quota[IS_FULL] for other, quota in self.quotas.items() if other[0] == key[0]
        ):
            self._report_room(key[0])

    def _report_room(self, namespace: str) -> None:
        if namespace in self._without_room:
            for subscription in self._subscriptions:
                subscription.on_room(namespace)

    def _on_pod(self, key: Key, before: Object | None, after: Object | None) -> None:
        if before is not None:
            self._forget_pod(before, is_gone=after is None or after["metadata"]["uid"] != before["metadata"]["uid"])
        if after is not None and (owner := controller_of(after)) is not None:
            self._pods_by_job[owner] = (*self.pods_of(owner), after)
        for pod in (before, after):
            job = (pod["metadata"].get("labels") or {}).get(JOB_NAME_LABEL) if pod is not None else None
            if job is not None:
                self._wake((key[0], job))
                return

    def _forget_pod(self, pod: Object, *, is_gone: bool) -> None:
        owner = controller_of(pod) or ""
        uid = pod["metadata"]["uid"]
        others = tuple(one for one in self.pods_of(owner) if one["metadata"]["uid"] != uid)
        if others:
            self._pods_by_job[owner] = others
        else:
            self._pods_by_job.pop(owner, None)
        if is_gone and not self._ends.has(uid):
            self._ends.add(PodEnd.of_pod(pod), now=_now())

    def _on_run(self, key: Key, before: Object | None, after: Object | None) -> None:
        if before is not None and after is None:
            self.new_runs.forget(before["metadata"]["uid"])
        if after is not None and after["status"].get("reason") == Reason.QUOTA_EXCEEDED:
            self._without_room.setdefault(key[0], {}).setdefault(key)
        elif (waiting := self._without_room.get(key[0])) is not None:
            waiting.pop(key, None)
            if not waiting:
                del self._without_room[key[0]]
        names = {job_name_of(run) for run in (before, after) if run is not None}
        for name in names:
            if name:
                self._wake((key[0], name))

    def _wake(self, key: Key) -> None:
        for subscription in self._subscriptions:
            subscription.wake(key)


def job_name_of(run: Object) -> str:
    """The name of the Job that the run's status names; empty without."""
    reference = (run.get("status") or {}).get("jobStatus") or {}
    return str(reference.get("name") or "")


class SharedParts:
    """Equal parts of cached objects, kept once. Nothing may change a cached object."""

    def __init__(self, *, limit: int = SHARED_LIMIT) -> None:
        self._limit = limit
        self._parts: dict[str, Object] = {}

    def __call__(self, part: Object) -> Object:
        """An equal part that was shared before, or this one."""
        if len(self._parts) >= self._limit:
            self._parts.clear()
        return self._parts.setdefault(json.dumps(part), part)


class OrphanedPods:
    """The Pods with the labels of a Job that nothing controls, by their UID; bounded in number."""

    def __init__(self, *, limit: int = ORPHANS_LIMIT) -> None:
        self._limit = limit
        self._by_uid: OrderedDict[str, tuple[str, Object]] = OrderedDict()

    def observe(self, pod: Object) -> None:
        """A Pod as it is now."""
        metadata = pod["metadata"]
        job_uid = (metadata.get("labels") or {}).get(CONTROLLER_UID_LABEL)
        is_orphan = bool(job_uid) and controller_of(pod) is None and not pod_state.is_terminal(pod)
        if not is_orphan or metadata.get("deletionTimestamp"):
            self._by_uid.pop(metadata["uid"], None)
            return
        named = {"metadata": {"name": metadata["name"], "uid": metadata["uid"]}}
        self._by_uid[metadata["uid"]] = (str(job_uid), named)
        while len(self._by_uid) > self._limit:
            self._by_uid.popitem(last=False)

    def of(self, job_uid: str) -> tuple[Object, ...]:
        """Those of one Job."""
        return tuple(pod for owner, pod in self._by_uid.values() if owner == job_uid)


@dataclass(frozen=True, slots=True)
class _Remembered:
    end: PodEnd
    at: float


class PodEnds:
    """Ends of Pods, by Pod and by Job; bounded in number and age."""

    def __init__(
        self, *, limit: int = ENDS_LIMIT, seconds: float = ENDS_KEPT_SECONDS, messages_limit: int = MESSAGES_LIMIT
    ) -> None:
        self._limit = limit
        self._seconds = seconds
        self._with_message: deque[str] = deque()
        self._messages_limit = messages_limit
        self._by_pod: OrderedDict[str, _Remembered] = OrderedDict()
        self._by_job: dict[str, tuple[str, ...]] = {}

    def add(self, end: PodEnd, *, now: float) -> None:
        """Remember an end; one that is known is replaced unless the new one knows less."""
        known = self._by_pod.get(end.pod_uid)
        if known is not None:
            if end.exit_code is not None or known.end.exit_code is None:
                self._by_pod[end.pod_uid] = _Remembered(end, known.at)
            return
        self._by_pod[end.pod_uid] = _Remembered(end, now)
        self._by_job[end.job_uid] = (*self._by_job.get(end.job_uid, ()), end.pod_uid)
        self._with_message.append(end.pod_uid)
        self._limit_messages()
        self._expire(now)

    def has(self, pod_uid: str) -> bool:
        """Whether the Pod's end is remembered."""
        return pod_uid in self._by_pod

    def of(self, job_uid: str) -> tuple[PodEnd, ...]:
        """The ends of a Job's Pods, oldest first."""
        return tuple(self._by_pod[uid].end for uid in self._by_job.get(job_uid, ()))

    def _limit_messages(self) -> None:
        while len(self._with_message) > self._messages_limit:
            uid = self._with_message.popleft()
            if (known := self._by_pod.get(uid)) is not None:
                self._by_pod[uid] = _Remembered(known.end.without_message(), known.at)

    def _expire(self, now: float) -> None:
        while self._by_pod:
            uid, oldest = next(iter(self._by_pod.items()))
            if len(self._by_pod) <= self._limit and now - oldest.at <= self._seconds:
                return
            del self._by_pod[uid]
            left = tuple(one for one in self._by_job[oldest.end.job_uid] if one != uid)
            if left:
                self._by_job[oldest.end.job_uid] = left
            else:
                del self._by_job[oldest.end.job_uid]


def _now() -> float:
    return asyncio.get_running_loop().time()
