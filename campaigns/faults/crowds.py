"""`python -m campaigns.faults.crowds`: how much each of the crowds on the page delays a run in
another namespace.

Lone runs are measured before and during the crowd, from their creation to their recorded end, and
beside each a bare Job with the same container: a crowd keeps Kubernetes' controllers busy too, and
what a run is delayed beyond its bare Job is the product's.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from campaigns.faults.node import Container, PlayedNode, run_of
from campaigns.faults.page import PAGE, folder_for, machine, publish
from campaigns.faults.scenarios import success_message
from campaigns.faults.users import create_config, create_run, delete
from campaigns.faults.world import World, create_namespace, until, world
from inferrun import wellknown
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.errors import KubeError
from inferrun.kube.objects import JOBS, PODS, RUNS, Object
from inferrun.launches.manifests import CONTAINER
from inferrun.timestamps import parse

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
WAITING = "waiting"
PENDING_SECONDS = 120
"""From the creation of the first run that waits until all time out: their Jobs exist by then, and
lone runs were measured."""
TIMEOUT_SECONDS = 60
"""From the moment at which all runs are running until all reach their limit: it is edited, and lone
runs are measured."""
FIRE_SECONDS = 90
"""At least as long from the creation of the first schedule until all fire."""
NEVER = 1e6


@dataclass(frozen=True)
class Pass:
    """The seconds of a lone run, of the bare Job beside it, and from the creation of the run until
    its own Job exists."""

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
        return max(one.added for one in self.crowded) - statistics.median(
            one.added for one in self.alone
        )


def behave(run: str, _launch: int, _verifies: bool) -> Container:  # noqa: FBT001 -- as `Behave` has it
    """Lone runs end at once, those of a crowd never."""
    return Container(
        message=success_message(),
        unschedulable_for=NEVER if run.startswith(WAITING) else 0.0,
        starts_after=0.0,
        ends_after=0.1 if run.startswith(QUIET) else None,
    )


@dataclass(frozen=True)
class Crowd:
    """What the runs of a crowd have reached before something happens to all of them, and what they
    report then."""

    before: str = "Running"
    """The reason of all of them; empty: they do not exist."""

    after: str = ""
    """The reason that is waited for; empty: none."""

    size: int = 300
    config: str = "iris"
    names: str = "crowd"


CROWDS = {
    "deletes": Crowd(size=500),
    "creations": Crowd(before=""),
    "ends": Crowd(after="Succeeded"),
    "pending timeouts": Crowd(before="Unschedulable", after="PendingTimeout", names=WAITING),
    "waits": Crowd(before="ConfigNotFound", after="PendingTimeout", config="missing"),
    "timeouts": Crowd(after="DeadlineExceeded"),
    "schedules": Crowd(before="Scheduled", after="Running"),
    "cancellations": Crowd(after="Cancelled"),
    "held": Crowd(size=60),
    "dead node": Crowd(size=60),
}


class Crowds:
    """Measures one crowd after the other in one installation."""

    def __init__(
        self,
        ground: World,
        *,
        user: KubeClient,
        crowd_node: PlayedNode,
        crowd_node_task: "asyncio.Task[None]",
    ) -> None:
        """`user` makes the requests of the crowd: lone runs must not wait for its connections."""
        self._ground = ground
        self._user = user
        self._crowd_node = crowd_node
        self._crowd_node_task = crowd_node_task
        self._lone = 0
        self._gathers_at = 0.0

    async def measure(self, name: str, *, size: int) -> Delay:
        crowd, slug = CROWDS[name], name.replace(" ", "-")
        namespace = f"crowd-{slug}"
        await create_namespace(self._ground.api, namespace)
        await create_config(self._ground.api, namespace, "iris")
        # a name that was released stays so
        runs = [f"{crowd.names}-{slug}-{number}" for number in range(size)]
        if crowd.before:
            await self._prepare(name, namespace, runs)
        await asyncio.sleep(3)
        alone = await self._passes()
        await asyncio.sleep(max(0.0, self._gathers_at - time.monotonic()))
        gathering = asyncio.create_task(self._gather(name, namespace, runs))
        await asyncio.sleep(0.2)
        crowded = await self._passes(during=gathering)
        await gathering
        return Delay(name, size, alone, crowded)

    async def _prepare(self, name: str, namespace: str, runs: Sequence[str]) -> None:
        """Create the runs, and wait until they are as before the crowd."""
        crowd, now = CROWDS[name], datetime.now(UTC)
        spec: Object = {"timeoutSeconds": 3600} if name == "timeouts" else {}
        if crowd.after == "PendingTimeout":
            self._gathers_at = time.monotonic() + PENDING_SECONDS
        if name == "schedules":
            due = (now + timedelta(seconds=FIRE_SECONDS + len(runs) / 5 + 60)).replace(
                second=0, microsecond=0
            )
            self._gathers_at = time.monotonic() + (due - now).total_seconds()
            spec = {"schedule": f"{due.minute} {due.hour} * * *"}
        for start in range(0, len(runs), BURST):
            if crowd.after == "PendingTimeout":
                spec = {"pendingTimeoutSeconds": round(self._gathers_at - time.monotonic())}
            await self._create(namespace, runs[start : start + BURST], config=crowd.config, **spec)
        await self._until_all(namespace, runs, crowd.before)
        if name == "timeouts":  # they did not start together, but are to end together
            self._gathers_at = time.monotonic() + TIMEOUT_SECONDS
            end = datetime.now(UTC) + timedelta(seconds=TIMEOUT_SECONDS)
            for run in runs:
                found: Object = self._ground.recorder.run_named(namespace, run) or {}
                seconds = round((end - parse(found["status"]["startTime"])).total_seconds())
                await self._user.patch(RUNS, namespace, run, {"spec": {"timeoutSeconds": seconds}})

    async def _gather(self, name: str, namespace: str, runs: Sequence[str]) -> None:
        """What happens to all of them at the same moment, or what they do by themselves."""
        if name == "creations":
            await self._create(namespace, runs, config="iris")
        if name == "deletes":
            await asyncio.gather(*(delete(self._user, RUNS, namespace, run) for run in runs))
        if name == "ends":
            for run in runs:
                await self._crowd_node.release(run)
        if name == "held":
            for (place, pod_name), pod in self._ground.recorder.pods.items():
                if place == namespace:
                    finalizers = [*(pod["metadata"].get("finalizers") or []), FINALIZER]
                    await self._ground.api.patch(
                        PODS, namespace, pod_name, {"metadata": {"finalizers": finalizers}}
                    )
        if name == "dead node":
            self._crowd_node_task.cancel()
            self._crowd_node.stop_playing()
        if name in ("cancellations", "held", "dead node"):
            await asyncio.gather(
                *(self._user.patch(RUNS, namespace, run, CANCELLED) for run in runs)
            )
        if CROWDS[name].after:
            await self._until_all(namespace, runs, CROWDS[name].after)

    # Any: JSON
    async def _create(
        self, namespace: str, runs: Sequence[str], *, config: str, **spec: Any
    ) -> None:
        await asyncio.gather(
            *(create_run(self._user, namespace, run, config=config, **spec) for run in runs)
        )

    async def _until_all(self, namespace: str, names: Sequence[str], reason: str) -> None:
        def is_so() -> bool:
            runs = [
                item
                for (place, _), item in self._ground.recorder.runs.items()
                if place == namespace
            ]
            return [(run.get("status") or {}).get("reason") for run in runs].count(reason) == len(
                names
            )

        await until(f"{len(names)} runs are {reason}", is_so, seconds=LIMIT_SECONDS)

    async def _passes(self, *, during: "asyncio.Task[None] | None" = None) -> tuple[Pass, ...]:
        passes: list[Pass] = []
        while len(passes) < PASSES or (
            during is not None and not during.done() and len(passes) < MOST_PASSES
        ):
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
        await until(
            f"the Job of {name} exists",
            lambda: self._has_job(name),
            seconds=LIMIT_SECONDS,
            poll=0.01,
        )
        launched = time.monotonic()
        await until(
            f"{name} has ended",
            lambda: self._phase(QUIET, name) == "Succeeded",
            seconds=LIMIT_SECONDS,
            poll=0.01,
        )
        return launched - started, time.monotonic() - started

    def _has_job(self, run: str) -> bool:
        jobs = [job for (place, _), job in self._ground.recorder.jobs.items() if place == QUIET]
        return any(
            owner.get("name") == run
            for job in jobs
            for owner in job["metadata"].get("ownerReferences") or []
        )

    async def _time_bare_job(self, name: str) -> float:
        started = time.monotonic()
        await self._ground.api.create(JOBS, QUIET, bare_job(name))
        await until(
            f"the Pod of {name} has ended",
            lambda: self._has_succeeded(name),
            seconds=LIMIT_SECONDS,
            poll=0.01,
        )
        return time.monotonic() - started

    def _has_succeeded(self, run: str) -> bool:
        pods = [
            pod
            for (place, _), pod in self._ground.recorder.pods.items()
            if place == QUIET and run_of(pod) == run
        ]
        return any((pod.get("status") or {}).get("phase") == "Succeeded" for pod in pods)

    def _phase(self, namespace: str, name: str) -> str:
        run: Object = self._ground.recorder.run_named(namespace, name) or {}
        return str((run.get("status") or {}).get("phase", ""))


def bare_job(name: str) -> Object:
    """A Job that is nobody's; the annotation makes the played node execute its Pod."""
    container = {"name": CONTAINER, "image": "example.com/runner:1"}
    template = {
        "metadata": {"annotations": {wellknown.ANNOTATION_RUN: name}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template},
    }


async def measure(folder: Path, *, sizes: dict[str, int]) -> list[Delay]:
    async with AsyncExitStack() as stack:
        ground = await stack.enter_async_context(
            world(folder, behave=behave, serves=lambda run: run.startswith(QUIET))
        )
        await stack.enter_async_context(ground.installation(SYSTEM, WATCH_NAMESPACE=""))
        user, node_api = [await connect(kubeconfig=ground.plane.kubeconfig) for _ in range(2)]
        for api in (user, node_api):
            stack.push_async_callback(api.close)
        node = PlayedNode(
            node_api, name="crowded", behave=behave, serves=lambda run: not run.startswith(QUIET)
        )
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
    lines = [
        f"{machine()}; median (maximum) of {PASSES} passes or more.",
        "",
        "| Crowd | Size | A bare Job, without and with the crowd | A lone run, without and with | Until its Job exists | Delay |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for one in delays:
        jobs, runs, launches = (
            " → ".join(
                _figures([getattr(each, kind) for each in passes])
                for passes in (one.alone, one.crowded)
            )
            for kind in ("job", "run", "launch")
        )
        lines.append(
            f"| {one.crowd} | {one.size} | {jobs} | {runs} | {launches} | {one.seconds:+.2f} s |"
        )
    lines += [
        "",
        "The delay is what the slowest run takes beyond its bare Job, less the median of this without the crowd.",
    ]
    return "\n".join(lines)


def _figures(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds):.2f} s ({max(seconds):.2f})"


def main() -> int:
    """Measure; the exit code is 0 if no crowd delays a run by more than a second."""
    parser = argparse.ArgumentParser(
        prog="campaigns.faults.crowds", description="Measure what a crowd costs others"
    )
    parser.add_argument(
        "--crowds",
        nargs="*",
        default=list(CROWDS),
        choices=list(CROWDS),
        help="crowds (default: all)",
    )
    parser.add_argument(
        "--size", type=int, help="runs of each crowd (default: up to 500, see above)"
    )
    parser.add_argument("--record", action="store_true", help=f"write the figures to {PAGE.name}")
    given = parser.parse_args()
    with folder_for("crowds") as folder:
        delays = asyncio.run(
            measure(folder, sizes={name: given.size or CROWDS[name].size for name in given.crowds})
        )
    publish("crowds", section_of(delays), is_recorded=given.record)
    return 1 if any(one.seconds > TOLERATED_SECONDS for one in delays) else 0


if __name__ == "__main__":
    sys.exit(main())
