"""`python -m campaigns.faults.recovery`: what happens to a thousand running Jobs when Temporal
forgets them.

- `lost`: Temporal's database is replaced by an empty one.
- `restored`: it is replaced by a copy that was made when only half of the runs existed.
- `forgotten`: the workflows of the ended runs are deleted, as after Temporal's retention, and the
  workflows of the running ones, too.

Each time, every running Job must be adopted within two minutes, no run may get a second Job, and
nothing that has ended may be executed again.
"""

import argparse
import asyncio
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest

from campaigns.faults.node import Container
from campaigns.faults.page import PAGE, folder_for, machine, publish
from campaigns.faults.scenarios import success_message
from campaigns.faults.servers import Servers
from campaigns.faults.users import create_config, create_run
from campaigns.faults.world import Installation, NotInTime, World, until, world
from inferrun.kube.objects import Object
from inferrun.names import run_workflow_id
from inferrun.run_ref import RunRef

NAMESPACE = "recovery"
KINDS = ("lost", "restored", "forgotten")
TOLERATED_SECONDS = 120.0
BURST = 20
"""Runs created at a time."""

DIVIDED = 10
"""Of so many running runs, one is divided among several Pods."""

SHARDS = 2

DATABASE = ("temporal.db", "temporal.db-shm", "temporal.db-wal")
LIMIT_SECONDS = 1800.0

OPEN_RUNS = "ExecutionStatus = 'Running' AND WorkflowType = 'InferenceRun'"
"""A list query of Temporal."""


@dataclass
class Finding:
    """What happened in one way of forgetting. `problems` are violations of what is promised."""

    kind: str
    running: int
    ended: int
    adopted_after: float | None = None
    ended_after: float | None = None
    problems: list[str] = field(default_factory=list)

    def expect(self, what: str, found: object, wanted: object) -> None:
        if found != wanted:
            self.problems.append(f"{what}: {found} instead of {wanted}")


def behave(run: str, _launch: int, _verifies: bool) -> Container:  # noqa: FBT001 -- as `Behave` has it
    """Runs named `…-short` end at once; the others run until they are released."""
    return Container(message=success_message(), ends_after=0.1 if run.endswith("short") else None)


class Recovery:
    """One way of forgetting, on servers of its own."""

    def __init__(self, ground: World, installation: Installation, *, kind: str, count: int) -> None:
        self._ground = ground
        self._installation = installation
        self._count = count
        self._servers = Servers(ground.plane, ground.folder)
        self._finding = Finding(kind, count, max(count // 5, 1))
        self._short = [f"c{number:05d}q-short" for number in range(self._finding.ended)]
        self._long = [f"c{number:05d}q-long" for number in range(10_000, 10_000 + count)]
        self._divided = set(self._long[::DIVIDED])

    async def run(self) -> Finding:
        try:
            await create_config(self._ground.api, NAMESPACE, "iris")
            half = self._count // 2
            await self._create([*self._short, *self._long[:half]])
            await until(
                "the first half is running",
                lambda: self._are("Running", self._long[:half]),
                seconds=LIMIT_SECONDS,
            )
            await until(
                "the short ones have ended",
                lambda: self._are("Succeeded", self._short),
                seconds=LIMIT_SECONDS,
            )
            await asyncio.sleep(5)  # their Jobs are marked, and their workflows closed
            if self._finding.kind == "restored":
                await self._copy_database()
            await self._create(self._long[half:])
            await until(
                "all are running", lambda: self._are("Running", self._long), seconds=LIMIT_SECONDS
            )
            await until(
                "all containers run",
                lambda: self._ground.node.starts.total() >= self._containers,
                seconds=LIMIT_SECONDS,
            )
            await asyncio.sleep(5)
            before = {name: self._item(name) for name in (*self._short, *self._long)}
            await self._forget()
            await self._until_adopted()
            await self._release()
            self._check(before)
        finally:
            self._servers.close()
        return self._finding

    async def _create(self, names: Sequence[str]) -> None:
        for start in range(0, len(names), BURST):
            group = names[start : start + BURST]
            await asyncio.gather(*(self._create_one(name) for name in group))

    async def _create_one(self, name: str) -> None:
        spec: dict[str, Any] = {"shards": SHARDS} if name in self._divided else {}  # Any: JSON
        await create_run(self._ground.api, NAMESPACE, name, config="iris", **spec)

    @property
    def _containers(self) -> int:
        """How many containers all runs have together."""
        return len(self._short) + len(self._long) + (SHARDS - 1) * len(self._divided)

    def _item(self, name: str) -> Object:
        return self._ground.recorder.run_named(NAMESPACE, name) or {}

    def _are(self, phase: str, names: Sequence[str]) -> bool:
        return all((self._item(name).get("status") or {}).get("phase") == phase for name in names)

    async def _copy_database(self) -> None:
        await self._servers.stop("temporal")
        _copy(self._ground.folder, self._ground.folder / "backup")
        self._servers.start("temporal")
        await until(
            "Temporal answers", self._ground.temporal.count_workflows, seconds=LIMIT_SECONDS
        )

    async def _forget(self) -> None:
        """Ends when Temporal answers again."""
        if self._finding.kind == "forgotten":
            await self._delete_workflows()
            return
        await self._servers.stop("temporal")
        for name in DATABASE:
            (self._ground.folder / name).unlink(missing_ok=True)
        if self._finding.kind == "restored":
            _copy(self._ground.folder / "backup", self._ground.folder)
        self._servers.start("temporal")
        await until(
            "Temporal answers", self._ground.temporal.count_workflows, seconds=LIMIT_SECONDS
        )

    async def _delete_workflows(self) -> None:
        """Until the last one is gone, a shim that resyncs may have adopted the first runs: their
        new workflows are left alone."""
        temporal = self._ground.temporal
        deleted = {item.run_id async for item in temporal.list_workflows(OPEN_RUNS)}
        for name in (*self._short, *self._long):
            request = DeleteWorkflowExecutionRequest(
                namespace=temporal.namespace,
                workflow_execution=WorkflowExecution(workflow_id=run_workflow_id(self._ref(name))),
            )
            await temporal.workflow_service.delete_workflow_execution(request)

        async def are_gone() -> bool:
            return deleted.isdisjoint(
                [item.run_id async for item in temporal.list_workflows(OPEN_RUNS)]
            )

        await until("the workflows are gone", are_gone, seconds=LIMIT_SECONDS)
        self._installation.shim.kill()  # which would otherwise find out at its next resync

    def _ref(self, name: str) -> RunRef:
        return RunRef(namespace=NAMESPACE, name=name, uid=self._item(name)["metadata"]["uid"])

    async def _until_adopted(self) -> None:
        started = time.monotonic()
        wanted = {run_workflow_id(self._ref(name)) for name in self._long}

        async def are_adopted() -> bool:
            return wanted <= {
                identity.removesuffix("/recover") for identity in await self._open_workflows()
            }

        with suppress(NotInTime):
            await until("all are adopted", are_adopted, seconds=5 * TOLERATED_SECONDS)
            self._finding.adopted_after = time.monotonic() - started
        after = self._finding.adopted_after
        if after is None or after > TOLERATED_SECONDS:
            self._finding.problems.append(
                f"adopted after {after and round(after)} s instead of {TOLERATED_SECONDS:.0f} s"
            )

    async def _open_workflows(self) -> set[str]:
        return {item.id async for item in self._ground.temporal.list_workflows(OPEN_RUNS)}

    async def _release(self) -> None:
        started = time.monotonic()
        for name in self._long:
            await self._ground.node.release(name)
        await until(
            "all have ended", lambda: self._are("Succeeded", self._long), seconds=LIMIT_SECONDS
        )
        self._finding.ended_after = time.monotonic() - started

    def _check(self, before: dict[str, Object]) -> None:
        recorder, finding = self._ground.recorder, self._finding
        traces = [recorder.traces(name[:7]) for name in (*self._short, *self._long)]
        jobs = [uids for one in traces for uids in one.jobs.values()]
        finding.expect("Jobs", sum(len(uids) for uids in jobs), len(traces))
        finding.expect(
            "runs with one launch", sum(len(one.jobs) == 1 for one in traces), len(traces)
        )
        finding.expect("containers", self._ground.node.starts.total(), self._containers)
        finding.expect(
            "runs whose terminal status changed",
            sum(len(s) > 1 for one in traces for s in one.terminal.values()),
            0,
        )
        changed = [name for name in self._short if self._item(name) != before[name]]
        finding.expect("ended runs that were written again", changed, [])


def _copy(source: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for name in DATABASE:
        if (source / name).exists():
            shutil.copy(source / name, target / name)


async def recover(folder: Path, *, kind: str, count: int) -> Finding:
    async with (
        world(folder, behave=behave) as ground,
        ground.installation(NAMESPACE, POLLING_INTERVAL="300") as installation,
    ):
        return await Recovery(ground, installation, kind=kind, count=count).run()


def section_of(findings: Sequence[Finding]) -> str:
    lines = [
        f"{machine()}; one measurement each.",
        "",
        "| Temporal's state | Running Jobs | Ended runs | Adopted after | Ended after release | Violations |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for one in findings:
        adopted, ended = (
            f"{value:.0f} s" if value is not None else "never"
            for value in (one.adopted_after, one.ended_after)
        )
        lines.append(
            f"| {one.kind} | {one.running} | {one.ended} | {adopted} | {ended} | {'; '.join(one.problems) or 'none'} |"
        )
    return "\n".join(lines)


def main() -> int:
    """Try all ways of forgetting; the exit code is 0 if everything that is promised held."""
    parser = argparse.ArgumentParser(
        prog="campaigns.faults.recovery", description="Recover from a Temporal that forgets"
    )
    parser.add_argument(
        "--runs", type=int, default=1000, help="number of running Jobs (default: 1000)"
    )
    parser.add_argument(
        "--kinds", nargs="*", default=KINDS, choices=KINDS, help="ways of forgetting (default: all)"
    )
    parser.add_argument("--record", action="store_true", help=f"write the figures to {PAGE.name}")
    given = parser.parse_args()
    findings = []
    for kind in given.kinds:
        with folder_for("recovery") as folder:
            findings.append(asyncio.run(recover(folder, kind=kind, count=given.runs)))
            sys.stdout.write(f"{findings[-1]}\n")
            sys.stdout.flush()
    publish("recovery", section_of(findings), is_recorded=given.record)
    return 1 if any(one.problems for one in findings) else 0


if __name__ == "__main__":
    sys.exit(main())
