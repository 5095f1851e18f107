"""`python -m tests.faults.crowds`: how much a crowd in one namespace delays a run in another one.

- `deletes`: 500 runs are deleted at the same moment.
- `creations`: 300 runs are created at the same moment.
- `ends`: the containers of 300 runs end at the same moment.
- `pending timeouts`: 300 runs whose Pods cannot be scheduled reach their `pendingTimeoutSeconds` within a second.
- `waits`: 300 runs that wait for a config, and have no Job, reach their `pendingTimeoutSeconds` within a second.
- `timeouts`: 300 running runs reach their `timeoutSeconds` within a second.
- `schedules`: 300 schedules fire in the same minute.
- `cancellations`: 300 running runs are cancelled at the same moment.
- `held`: 60 Pods that are to be stopped are held by a finalizer.
- `dead node`: the kubelet of the node with 60 running Pods stops, and all of their runs are cancelled.

Lone runs are measured before and during the crowd, from their creation to their recorded end, and beside each a bare Job with
the same container, from its creation to the end of its Pod. The node is played and needs always the same time. A crowd keeps
Kubernetes' controllers busy too, and a bare Job shows how long: what a run is delayed beyond its bare Job is the product's.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from activities.launching.manifests import CONTAINER
from inferrun import wellknown
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.errors import KubeError
from inferrun.kube.objects import JOBS, PODS, RUNS, Object
from inferrun.timestamps import parse
from tests.faults.node import Container, PlayedNode, run_of
from tests.faults.page import PAGE, machine, replace_section
from tests.faults.scenarios import success_message
from tests.faults.users import create_config, create_run, delete
from tests.faults.world import World, create_namespace, world

SYSTEM = "crowds-system"
QUIET = "quiet"
TOLERATED_SECONDS = 1.0
PASSES = 5
MOST_PASSES = 20
"""During a crowd that takes long, lone runs are measured until it is over, or so many of them."""
BURST = 20
LIMIT_SECONDS = 600.0
FINALIZER = "example.com/held"
CANCELLED = {"metadata": {"annotations": {wellknown.ANNOTATION_CANCEL_REQUESTED: "true"}}}
SIZES = {
    "deletes": 500,
    "creations": 300,
    "ends": 300,
    "pending timeouts": 300,
    "waits": 300,
    "timeouts": 300,
    "schedules": 300,
    "cancellations": 300,
    "held": 60,
    "dead node": 60,
}
WAITING = "waiting"
PENDING_SECONDS = 120
"""From the creation of the first run that waits until all time out: their Jobs exist by then, and lone runs were measured."""
TIMEOUT_SECONDS = 60
"""From the moment at which all runs are running until all reach their limit: it is edited, and lone runs are measured."""
FIRE_SECONDS = 90
"""At least as long from the creation of the first schedule until all fire."""
NEVER = 1e6


@dataclass(frozen=True)
class Pass:
    """The seconds of a lone run, of the bare Job beside it, and from the creation of the run until its own Job exists."""

    run: float
    job: float
    launch: float

    @property
    def added(self) -> float:
        """What the run takes longer than the bare Job."""
        return self.run - self.job


@dataclass(frozen=True)
class Delay:
    """Lone runs and bare Jobs without and with a crowd."""

    crowd: str
    size: int
    alone: tuple[Pass, ...]
    crowded: tuple[Pass, ...]

    @property
    def seconds(self) -> float:
        """How much more than without the crowd the slowest run takes beyond its bare Job."""
        return max(one.added for one in self.crowded) - statistics.median(one.added for one in self.alone)


def behave(run: str, _launch: int, _verifies: bool) -> Container:  # noqa: FBT001 -- as `Behave` has it
    """Lone runs end at once, those of a crowd never."""
    return Container(
        message=success_message(),
        unschedulable_for=NEVER if run.startswith(WAITING) else 0.0,
        starts_after=0.0,
        ends_after=0.1 if run.startswith(QUIET) else None,
    )


class Crowds:
    """Measures one crowd after the other in one installation."""

    def __init__(
        self, ground: World, *, user: KubeClient, crowd_node: PlayedNode, crowd_node_task: "asyncio.Task[None]"
    ) -> None:
        """`user` makes the requests of the crowd: lone runs must not wait for its connections."""
        self._ground = ground
        self._user = user
        self._crowd_node = crowd_node
        self._crowd_node_task = crowd_node_task
        self._lone = 0
        self._gathers_at = 0.0

    async def measure(self, crowd: str, *, size: int) -> Delay:
        """The delay that a crowd causes."""
        namespace = f"crowd-{crowd.replace(' ', '-')}"
        await create_namespace(self._ground.api, namespace)
        await create_config(self._ground.api, namespace, "iris")
        names = [f"{WAITING if crowd == 'pending timeouts' else 'crowd'}-{number}" for number in range(size)]
        prepare, gather = {
            "deletes": (self._run_all, self._delete_all),
            "creations": (self._prepare_nothing, self._create_all),
            "ends": (self._run_all, self._end_all),
            "pending timeouts": (self._let_wait, self._time_out_all),
            "waits": (self._let_wait_for_config, self._time_out_all),
            "timeouts": (self._limit_all, self._reach_limits),
            "schedules": (self._schedule_all, self._fire_all),
            "cancellations": (self._run_all, self._cancel_at_once),
            "held": (self._run_all, self._hold_and_cancel),
            "dead node": (self._run_all, self._kill_node),
        }[crowd]
        await prepare(namespace, names)
        await asyncio.sleep(3)
        alone = await self._passes()
        await asyncio.sleep(max(0.0, self._gathers_at - time.monotonic()))
        gathering = asyncio.create_task(gather(namespace, names))
        await asyncio.sleep(0.2)
        crowded = await self._passes(during=gathering)
        await gathering
        return Delay(crowd, size, alone, crowded)

    async def _prepare_nothing(self, namespace: str, names: Sequence[str]) -> None:
        pass

    async def _run_all(self, namespace: str, names: Sequence[str]) -> None:
        await self._create_in_bursts(namespace, names)
        await self._until_all(namespace, names, "Running")

    async def _let_wait(self, namespace: str, names: Sequence[str]) -> None:
        self._gathers_at = time.monotonic() + PENDING_SECONDS
        await self._create_in_bursts(namespace, names, pending_until=self._gathers_at)
        await self._until_all(namespace, names, "Unschedulable")

    async def _let_wait_for_config(self, namespace: str, names: Sequence[str]) -> None:
        self._gathers_at = time.monotonic() + PENDING_SECONDS
        await self._create_in_bursts(namespace, names, pending_until=self._gathers_at, config="missing")
        await self._until_all(namespace, names, "ConfigNotFound")

    async def _limit_all(self, namespace: str, names: Sequence[str]) -> None:
        """Their limits are set when they run, so that all end together although they did not start together."""
        await self._create_in_bursts(namespace, names, limit={"timeoutSeconds": 3600})
        await self._until_all(namespace, names, "Running")
        self._gathers_at = time.monotonic() + TIMEOUT_SECONDS
        end = datetime.now(UTC) + timedelta(seconds=TIMEOUT_SECONDS)
        for name in names:
            run: Object = self._ground.recorder.run_named(namespace, name) or {}
            seconds = round((end - parse(run["status"]["startTime"])).total_seconds())
            await self._user.patch(RUNS, namespace, name, {"spec": {"timeoutSeconds": seconds}})

    async def _reach_limits(self, namespace: str, names: Sequence[str]) -> None:
        await self._until_all(namespace, names, "DeadlineExceeded")

    async def _schedule_all(self, namespace: str, names: Sequence[str]) -> None:
        now = datetime.now(UTC)
        due = (now + timedelta(seconds=FIRE_SECONDS + len(names) / 5 + 60)).replace(second=0, microsecond=0)
        self._gathers_at = time.monotonic() + (due - now).total_seconds()
        schedule = {"schedule": f"{due.minute} {due.hour} * * *"}
        await self._create_in_bursts(namespace, names, limit=schedule)
        await self._until_all(namespace, names, "Scheduled")

    async def _fire_all(self, namespace: str, names: Sequence[str]) -> None:
        await self._until_all(namespace, names, "Running")

    async def _cancel_at_once(self, namespace: str, names: Sequence[str]) -> None:
        await self._cancel_all(namespace, names)
        await self._until_all(namespace, names, "Cancelled")

    async def _create_in_bursts(
        self,
        namespace: str,
        names: Sequence[str],
        *,
        pending_until: float | None = None,
        config: str = "iris",
        limit: Object | None = None,
    ) -> None:
        for start in range(0, len(names), BURST):
            spec = {} if limit is None else limit
            if pending_until is not None:
                spec = {"pendingTimeoutSeconds": round(pending_until - time.monotonic())}
            await self._create_all(namespace, names[start : start + BURST], config=config, spec=spec)

    async def _create_all(
        self, namespace: str, names: Sequence[str], *, config: str = "iris", spec: Object | None = None
    ) -> None:
        created = (create_run(self._user, namespace, name, config=config, **(spec or {})) for name in names)
        await asyncio.gather(*created)

    async def _end_all(self, namespace: str, names: Sequence[str]) -> None:
        for name in names:
            await self._crowd_node.release(name)
        await self._until_all(namespace, names, "Succeeded")

    async def _time_out_all(self, namespace: str, names: Sequence[str]) -> None:
        await self._until_all(namespace, names, "PendingTimeout")

    async def _until_all(self, namespace: str, names: Sequence[str], reason: str) -> None:
        def is_so() -> bool:
            runs = [item for (place, _), item in self._ground.recorder.runs.items() if place == namespace]
            return [(run.get("status") or {}).get("reason") for run in runs].count(reason) == len(names)

        await self._until(f"{len(names)} runs are {reason}", is_so)

    async def _passes(self, *, during: "asyncio.Task[None] | None" = None) -> tuple[Pass, ...]:
        passes: list[Pass] = []
        while len(passes) < PASSES or (during is not None and not during.done() and len(passes) < MOST_PASSES):
            passes.append(await self._pass())
        return tuple(passes)

    async def _pass(self) -> Pass:
        self._lone += 1
        run, job = f"{QUIET}-{self._lone}", f"{QUIET}-bare-{self._lone}"
        async with asyncio.TaskGroup() as tasks:
            timed_run = tasks.create_task(self._time_run(run))
            timed_job = tasks.create_task(self._time_bare_job(job))
        launch, run_seconds = timed_run.result()
        return Pass(run_seconds, timed_job.result(), launch)

    async def _time_run(self, name: str) -> tuple[float, float]:
        """Until its Job exists, and until it has ended."""
        started = time.monotonic()
        await create_run(self._ground.api, QUIET, name, config="iris")
        await self._until(f"the Job of {name} exists", lambda: self._has_job(name), poll=0.01)
        launched = time.monotonic()
        await self._until(f"{name} has ended", lambda: self._phase(QUIET, name) == "Succeeded", poll=0.01)
        return launched - started, time.monotonic() - started

    def _has_job(self, run: str) -> bool:
        jobs = [job for (place, _), job in self._ground.recorder.jobs.items() if place == QUIET]
        return any(owner.get("name") == run for job in jobs for owner in job["metadata"].get("ownerReferences") or [])

    async def _time_bare_job(self, name: str) -> float:
        started = time.monotonic()
        await self._ground.api.create(JOBS, QUIET, bare_job(name))
        await self._until(f"the Pod of {name} has ended", lambda: self._has_succeeded(name), poll=0.01)
        return time.monotonic() - started

    def _has_succeeded(self, run: str) -> bool:
        pods = [pod for (place, _), pod in self._ground.recorder.pods.items() if place == QUIET and run_of(pod) == run]
        return any((pod.get("status") or {}).get("phase") == "Succeeded" for pod in pods)

    async def _delete_all(self, namespace: str, names: Sequence[str]) -> None:
        await asyncio.gather(*(delete(self._user, RUNS, namespace, name) for name in names))

    async def _hold_and_cancel(self, namespace: str, names: Sequence[str]) -> None:
        for (place, name), pod in self._ground.recorder.pods.items():
            if place == namespace:
                finalizers = [*(pod["metadata"].get("finalizers") or []), FINALIZER]
                await self._ground.api.patch(PODS, namespace, name, {"metadata": {"finalizers": finalizers}})
        await self._cancel_all(namespace, names)

    async def _kill_node(self, namespace: str, names: Sequence[str]) -> None:
        self._crowd_node_task.cancel()
        self._crowd_node.stop_playing()
        await self._cancel_all(namespace, names)

    async def _cancel_all(self, namespace: str, names: Sequence[str]) -> None:
        await asyncio.gather(*(self._user.patch(RUNS, namespace, name, CANCELLED) for name in names))

    def _phase(self, namespace: str, name: str) -> str:
        run: Object = self._ground.recorder.run_named(namespace, name) or {}
        return str((run.get("status") or {}).get("phase", ""))

    async def _until(self, what: str, is_so: Callable[[], bool], *, poll: float = 0.2) -> None:
        deadline = time.monotonic() + LIMIT_SECONDS
        while not is_so():
            if time.monotonic() > deadline:
                raise TimeoutError(what)
            await asyncio.sleep(poll)


def bare_job(name: str) -> Object:
    """A Job that is nobody's; the annotation makes the played node execute its Pod."""
    container = {"name": CONTAINER, "image": "example.com/runner:1"}
    template = {
        "metadata": {"annotations": {wellknown.ANNOTATION_RUN: name}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}


async def measure(folder: Path, *, sizes: dict[str, int]) -> list[Delay]:
    """Start everything, measure the crowds, stop everything. The crowd has a node of its own."""
    async with AsyncExitStack() as stack:
        ground = await stack.enter_async_context(world(folder, behave=behave, serves=lambda run: run.startswith(QUIET)))
        await stack.enter_async_context(ground.installation(SYSTEM, WATCH_NAMESPACE=""))
        user, node_api = [await connect(kubeconfig=ground.plane.kubeconfig) for _ in range(2)]
        for api in (user, node_api):
            stack.push_async_callback(api.close)
        node = PlayedNode(node_api, name="crowded", behave=behave, serves=lambda run: not run.startswith(QUIET))
        playing = asyncio.create_task(node.run())
        stack.callback(playing.cancel)
        await create_namespace(ground.api, QUIET)
        await create_config(ground.api, QUIET, "iris")
        crowds = Crowds(ground, user=user, crowd_node=node, crowd_node_task=playing)
        delays = []
        try:
            for crowd, size in sizes.items():
                delays.append(await crowds.measure(crowd, size=size))
                sys.stdout.write(f"{delays[-1]}\n")
                sys.stdout.flush()
        finally:
            await release_held(ground)
        return delays


async def release_held(ground: World) -> None:
    """Remove the finalizers, so that the namespaces can go."""
    for (namespace, name), pod in ground.recorder.pods.items():
        finalizers = pod["metadata"].get("finalizers") or []
        if FINALIZER in finalizers:
            others = [one for one in finalizers if one != FINALIZER]
            try:
                await ground.api.patch(PODS, namespace, name, {"metadata": {"finalizers": others}})
            except KubeError:
                continue


def section_of(delays: Sequence[Delay]) -> str:
    """The delays as a section of the page."""
    lines = [
        f"{machine()}; median (maximum) of {PASSES} passes or more.",
        "",
        "| Crowd | Size | A bare Job, without and with the crowd | A lone run, without and with | Until its Job exists | Delay |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for one in delays:
        jobs, runs, launches = (
            " → ".join(_figures([getattr(each, kind) for each in passes]) for passes in (one.alone, one.crowded))
            for kind in ("job", "run", "launch")
        )
        lines.append(f"| {one.crowd} | {one.size} | {jobs} | {runs} | {launches} | {one.seconds:+.2f} s |")
    lines += [
        "",
        "The delay is what the slowest run takes beyond its bare Job, less the median of this without the crowd.",
    ]
    return "\n".join(lines)


def _figures(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f} s ({max(seconds):.2f})"


def main() -> int:
    """Measure; the exit code is 0 if no crowd delays a run by more than a second."""
    parser = argparse.ArgumentParser(prog="tests.faults.crowds", description="Measure what a crowd costs others")
    parser.add_argument("--crowds", nargs="*", default=list(SIZES), choices=list(SIZES), help="crowds (default: all)")
    parser.add_argument("--size", type=int, help="runs of each crowd (default: up to 500, see above)")
    parser.add_argument("--record", action="store_true", help=f"write the figures to {PAGE.name}")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="inferrun-crowds-") as folder:
        delays = asyncio.run(measure(Path(folder), sizes={crowd: given.size or SIZES[crowd] for crowd in given.crowds}))
    section = section_of(delays)
    sys.stdout.write(f"{section}\n")
    if given.record:
        PAGE.write_text(replace_section(PAGE.read_text(), name="crowds", content=section))
    return 1 if any(one.seconds > TOLERATED_SECONDS for one in delays) else 0


if __name__ == "__main__":
    sys.exit(main())
