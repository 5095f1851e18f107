"""Records what exists and existed of each case: every run, every Job that was ever created, and
every terminal status."""

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, field

from campaigns.faults.duplicates import SeenJob, SeenPod
from campaigns.faults.injection import TOKEN
from campaigns.faults.node import launch_of
from control.informer import Informer, Key
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIG_MAPS, CONFIGS, JOBS, PODS, RUNS, Object, controller_of
from inferrun.launches.manifests import NOT_STARTED
from inferrun.run_ref import RunRef

TERMINAL = ("Succeeded", "Failed")


@dataclass
class Traces:
    runs: dict[str, RunRef] = field(default_factory=dict)
    """All runs by UID."""
    jobs: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    """The UIDs of all Jobs by run UID and launch."""
    seen_jobs: dict[str, SeenJob] = field(default_factory=dict)
    """The same Jobs by UID."""
    seen_pods: dict[str, SeenPod] = field(default_factory=dict)
    """The Pods of these Jobs by UID."""
    terminal: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The terminal statuses (phase/reason/time) by run UID; at most one each, because none may
    change."""
    last: dict[str, Object] = field(default_factory=dict)
    """The last status of each run by UID, also of one that is gone."""


class Recorder:
    """Run it as one task; it watches all namespaces."""

    def __init__(self, api: KubeClient) -> None:
        self._traces: dict[str, Traces] = defaultdict(Traces)
        self.runs = Informer(api, RUNS, namespace=None, listener=self._on_run)
        self.jobs = Informer(api, JOBS, namespace=None, listener=self._on_job)
        self.pods = Informer(api, PODS, namespace=None, listener=self._on_pod)
        self.config_maps = Informer(api, CONFIG_MAPS, namespace=None)
        self.configs = Informer(api, CONFIGS, namespace=None)

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in (self.runs, self.jobs, self.pods, self.config_maps, self.configs):
                tasks.create_task(informer.run())

    def traces(self, token: str) -> Traces:
        return self._traces[token]

    def run_named(self, namespace: str, name: str) -> Object | None:
        return self.runs.get(namespace, name)

    def present(self, informer: Informer, token: str) -> list[Object]:
        return [item for (_, name), item in informer.items() if token in name]

    def _on_run(self, key: Key, _before: Object | None, after: Object | None) -> None:
        match = TOKEN.search(key[1])
        if match is None or after is None:
            return
        traces = self._traces[match.group()]
        uid = after["metadata"]["uid"]
        status = after.get("status") or {}
        traces.runs[uid] = RunRef(namespace=key[0], name=key[1], uid=uid)
        traces.last[uid] = status
        if status.get("phase") in TERMINAL:
            traces.terminal[uid].add(
                f"{status['phase']}/{status.get('reason')}/{status.get('completionTime')}"
            )

    def _on_job(self, key: Key, before: Object | None, after: Object | None) -> None:
        match = TOKEN.search(key[1])
        if match is None:
            return
        traces = self._traces[match.group()]
        if after is None:
            if before is not None and (known := traces.seen_jobs.get(before["metadata"]["uid"])):
                known.removed = time.monotonic()
            return
        uid, labels = after["metadata"]["uid"], after["metadata"].get("labels") or {}
        traces.jobs[labels.get(wellknown.LABEL_RUN_UID, ""), launch_of(after)].add(uid)
        seen = traces.seen_jobs.setdefault(uid, SeenJob(uid, created=time.monotonic()))
        seen.is_started = seen.is_started or after["spec"].get("parallelism") != NOT_STARTED

    def _on_pod(self, key: Key, before: Object | None, after: Object | None) -> None:
        match, pod = TOKEN.search(key[1]), after or before
        job_uid = controller_of(pod) if pod is not None else None
        if match is None or pod is None or job_uid is None:
            return
        uid, status = pod["metadata"]["uid"], pod.get("status") or {}
        pods = self._traces[match.group()].seen_pods
        seen = pods.setdefault(uid, SeenPod(uid, job_uid=job_uid, created=time.monotonic()))
        is_over = after is None or status.get("phase") in TERMINAL
        if is_over and seen.ended is None:
            seen.ended, seen.how = time.monotonic(), _end_of(status)


def _end_of(status: Object) -> str:
    states = [
        one.get("state", {}).get("terminated") or {}
        for one in status.get("containerStatuses") or []
    ]
    codes = [str(state["exitCode"]) for state in states if "exitCode" in state]
    return " ".join([str(status.get("phase") or "removed"), *codes])
