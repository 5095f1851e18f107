"""Plays a node for a control plane without kubelets: binds Pods, starts and ends their containers,
deletes stopped Pods.

How a container behaves follows from the name of its run: everything else is real, from the API
server to the controllers of Jobs, garbage and Pods.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from control.informer import Informer, Key
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AlreadyExists, Conflict, Invalid, KubeError, NotFound
from inferrun.kube.objects import LEASES, PODS, Object, Resource
from inferrun.launches.manifests import CONTAINER
from inferrun.reasons import Reason
from inferrun.runner_report import RunnerResult, dump_result
from inferrun.timestamps import rfc3339

NODES = Resource("v1", "nodes")
BINDINGS = "binding"
HEARTBEAT_SECONDS = 10.0
LEASE_NAMESPACE = "kube-node-lease"
RETRY_SECONDS = 0.2
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"


@dataclass(frozen=True)
class Container:
    """How a container behaves. Without `ends_after`, it runs until it is stopped or released."""

    exit_code: int = 0
    message: str = ""
    unschedulable_for: float = 0.0
    starts_after: float = 0.1
    ends_after: float | None = 0.3
    stops_after: float = 0.2
    """Seconds from the request to stop to the end."""
    exit_code_when_stopped: int = 143
    others_run_on: bool = False
    """Of several shards, whether only the first one ends by itself."""
    other_runs_on: bool = False
    """Whether another container, which a webhook added, runs on after it until the Pod is
    stopped."""
    is_rejected: bool = False
    """Whether the kubelet does not admit the Pod."""
    is_unreachable: bool = False
    """Whether its node stops responding: the container runs on, and nobody hears of a request to
    stop."""


@dataclass(frozen=True)
class End:
    """How a container ended."""

    exit_code: int
    message: str = ""


LOST = End(137, "the node was restarted")


Behave = Callable[[str, int, bool], Container]
"""How a container behaves: by the run's name, the number of the launch, and whether it verifies the
output."""


class PlayedNode:
    """Run it as one task."""

    def __init__(
        self,
        api: KubeClient,
        *,
        name: str,
        behave: Behave,
        serves: Callable[[str], bool] = lambda _run: True,
    ) -> None:
        """`serves` says by the run's name whether a Pod comes to this node, if there are
        several."""
        self._api = api
        self._name = name
        self._behave = behave
        self._serves = serves
        self._informer = Informer(api, PODS, namespace=None, listener=self._on_pod)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._stops: dict[str, asyncio.Event] = {}
        self._released: set[str] = set()
        self._released_changed = asyncio.Condition()
        self.starts: Counter[tuple[str, str]] = Counter()
        """How many containers have started, by run and launch."""

    async def run(self) -> None:
        """Play until cancelled."""
        await self._register()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._beat())
            tasks.create_task(self._informer.run())

    def stop_playing(self) -> None:
        """End at once and report nothing more, as a kubelet that is killed. The caller cancels the
        node's task."""
        for task in self._tasks.values():
            task.cancel()

    async def release(self, run: str) -> None:
        """Let the containers of a run end."""
        async with self._released_changed:
            self._released.add(run)
            self._released_changed.notify_all()

    async def _register(self) -> None:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self._name}}
        lease = {
            "metadata": {"name": self._name},
            "spec": {"holderIdentity": self._name, "leaseDurationSeconds": 40},
        }
        try:
            await self._api.create(NODES, None, node)
            await self._api.create(LEASES, LEASE_NAMESPACE, lease)
        except AlreadyExists:
            return

    async def _beat(self) -> None:
        """Without this, the controllers would take the node for lost after 40 seconds, and evict
        its Pods."""
        while True:
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
            ready = {
                "type": "Ready",
                "status": "True",
                "reason": "Played",
                "lastHeartbeatTime": now[:19] + "Z",
            }
            try:
                await self._api.patch(
                    LEASES, LEASE_NAMESPACE, self._name, {"spec": {"renewTime": now}}
                )
                await self._api.patch(
                    NODES, None, self._name, {"status": {"conditions": [ready]}}, sub="status"
                )
            except KubeError:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            await asyncio.sleep(HEARTBEAT_SECONDS)

    def _on_pod(self, _key: Key, before: Object | None, after: Object | None) -> None:
        uid = (after or before or {})["metadata"]["uid"]
        if after is None:
            self._stops.pop(uid, None)
            task = self._tasks.pop(uid, None)
            if task is not None:
                task.cancel()
            return
        if uid not in self._tasks and run_of(after) and self._serves(run_of(after)):
            self._stops[uid] = asyncio.Event()
            self._tasks[uid] = asyncio.create_task(self._play(after, self._stops[uid]))
        if uid in self._stops and after["metadata"].get("deletionTimestamp"):
            self._stops[uid].set()

    async def _play(self, pod: Object, stop: asyncio.Event) -> None:
        """The life of a Pod; one that was running when this node started has lost its container."""
        if self._plan_of(pod).is_unreachable:
            await self._execute(pod, asyncio.Event())
        phase = (pod.get("status") or {}).get("phase")
        if phase not in ("Succeeded", "Failed"):
            await (
                self._report(pod, LOST, started="")
                if phase == "Running"
                else self._execute(pod, stop)
            )
        await self._remove_when_stopped(pod, stop)

    def _plan_of(self, pod: Object) -> Container:
        return self._behave(run_of(pod), int(launch_of(pod).split()[0]), verifies(pod))

    async def _execute(self, pod: Object, stop: asyncio.Event) -> None:
        run, launch, plan = run_of(pod), launch_of(pod), self._plan_of(pod)
        if plan.unschedulable_for:
            await self._say(pod, {"phase": "Pending", "conditions": [_unschedulable()]})
            await asyncio.sleep(plan.unschedulable_for)
        await self._bind(pod)
        if plan.is_rejected:
            rejected = (
                "Node didn't have enough resource: cpu, requested: 4000, used: 900, capacity: 2000"
            )
            await self._say(pod, {"phase": "Failed", "reason": "OutOfcpu", "message": rejected})
            return
        await asyncio.sleep(plan.starts_after)
        started = rfc3339(datetime.now(UTC))
        if not stop.is_set():
            await self._say(
                pod, {"phase": "Running", **_container(pod, {"running": {"startedAt": started}})}
            )
            self.starts[run, launch] += (
                1  # a node that is killed before has started nothing, and its successor starts it
            )
        end = await self._until_it_ends(pod, plan, stop)
        if plan.other_runs_on and not stop.is_set():
            await self._report(pod, end, started=started, other={"running": {"startedAt": started}})
            await stop.wait()
            await asyncio.sleep(plan.stops_after)
        killed = {
            "terminated": {
                "exitCode": 137,
                "startedAt": started,
                "finishedAt": rfc3339(datetime.now(UTC)),
            }
        }
        await self._report(pod, end, started=started, other=killed if plan.other_runs_on else None)

    async def _report(
        self, pod: Object, end: End, *, started: str, other: Object | None = None
    ) -> None:
        now = rfc3339(datetime.now(UTC))
        ended = {
            "exitCode": end.exit_code,
            "reason": "Completed" if end.exit_code == 0 else "Error",
            "message": end.message,
            "startedAt": started or now,
            "finishedAt": now,
        }
        phase = "Failed" if end.exit_code or other else "Succeeded"
        containers = _container(pod, {"terminated": ended})
        if other is not None:
            containers["containerStatuses"].append(
                {**containers["containerStatuses"][0], "name": "other", "state": other}
            )
        await self._say(
            pod, {"phase": "Running" if other and "running" in other else phase, **containers}
        )

    async def _until_it_ends(self, pod: Object, plan: Container, stop: asyncio.Event) -> End:
        """Wait for the container's end: its own, or 143 after a request to stop."""
        waits = [asyncio.create_task(stop.wait()), asyncio.create_task(self._own_end(pod, plan))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if stop.is_set():
            await asyncio.sleep(plan.stops_after)
            stopped = dump_result(RunnerResult(reason=Reason.STOPPED, message="stopped by SIGTERM"))
            return End(
                plan.exit_code_when_stopped,
                stopped if plan.exit_code_when_stopped else plan.message,
            )
        return End(plan.exit_code, plan.message)

    async def _own_end(self, pod: Object, plan: Container) -> None:
        run = run_of(pod)
        if plan.others_run_on and shard_of(pod):
            await asyncio.Event().wait()
        if plan.ends_after is not None:
            await asyncio.sleep(plan.ends_after)
            return
        async with self._released_changed:
            await self._released_changed.wait_for(lambda: run in self._released)

    async def _remove_when_stopped(self, pod: Object, stop: asyncio.Event) -> None:
        """As a kubelet does: the object of a Pod that is being deleted goes once its containers
        have ended."""
        await stop.wait()
        metadata = pod["metadata"]
        await self._insist(
            lambda: self._api.delete(
                PODS, metadata["namespace"], metadata["name"], uid=metadata["uid"], grace=0
            )
        )

    async def _bind(self, pod: Object) -> None:
        metadata = pod["metadata"]
        if pod["spec"].get("nodeName"):
            return
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "uid": metadata["uid"]},
            "target": {"kind": "Node", "name": self._name},
        }
        collection = Resource("v1", f"pods/{metadata['name']}/{BINDINGS}")
        await self._insist(lambda: self._api.create(collection, metadata["namespace"], body))

    async def _say(self, pod: Object, status: Object) -> None:
        metadata = pod["metadata"]
        body = {"metadata": {"uid": metadata["uid"]}, "status": status}
        await self._insist(
            lambda: self._api.patch(
                PODS, metadata["namespace"], metadata["name"], body, sub="status"
            )
        )

    async def _insist(self, request: Callable[[], Awaitable[object]]) -> None:
        """Repeat a request until the API server answers; an object that is gone or has changed is
        left alone."""
        while True:
            try:
                await request()
            except (NotFound, Conflict, Invalid):
                return
            except KubeError:
                await asyncio.sleep(RETRY_SECONDS)
                continue
            return


def run_of(pod: Object) -> str:
    """The name of the Pod's run; empty if it belongs to none."""
    return str((pod["metadata"].get("annotations") or {}).get(wellknown.ANNOTATION_RUN, ""))


def shard_of(pod: Object) -> int:
    """Which of several shards a Pod is, from 0."""
    return int((pod["metadata"].get("annotations") or {}).get(COMPLETION_INDEX, "0"))


def verifies(item: Object) -> bool:
    """Whether a Job or Pod is not a launch but looks for the output of one."""
    annotations = item["metadata"].get("annotations") or {}
    return bool(annotations.get(wellknown.ANNOTATION_RUNNER) == wellknown.RUNNER_VERIFY)


def launch_of(item: Object) -> str:
    """The number of the launch that a Job or Pod is, such as `2`; for one that verifies its output,
    `2 verified`."""
    number = str((item["metadata"].get("labels") or {}).get(wellknown.LABEL_LAUNCH, "1"))
    return f"{number} verified" if verifies(item) else number


def _container(pod: Object, state: Object) -> Object:
    image = pod["spec"]["containers"][0]["image"]
    status = {
        "name": CONTAINER,
        "image": image,
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": state,
    }
    return {"containerStatuses": [status]}


def _unschedulable() -> Object:
    return {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/1 nodes are available: 1 Insufficient cpu.",
        "lastTransitionTime": rfc3339(datetime.now(UTC)),
    }
