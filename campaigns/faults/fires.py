"""`python -m campaigns.faults.fires`: hundreds of schedules fire every minute while programs are
killed around the fire times.

Shim, worker and Temporal are killed at the minutes, each of them and all together are down for
shorter and for longer than the starting deadline of a half of the schedules, and Temporal's
database is lost. Then an account checks that each scheduled time has exactly one run, whose
container was started once at most, or exactly one reason, in the counters of the schedule's status.
A run that was deleted before it was launched does not count, and may have been created again.
"""

import argparse
import asyncio
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from campaigns.faults.duplicates import is_launch
from campaigns.faults.node import Container
from campaigns.faults.page import PAGE, folder_for, machine, publish
from campaigns.faults.recovery import DATABASE
from campaigns.faults.scenarios import success_message
from campaigns.faults.servers import Servers
from campaigns.faults.users import create_config, create_run
from campaigns.faults.world import Installation, NotInTime, World, until, world
from control.informer import Informer, Key
from inferrun import wellknown
from inferrun.kube.objects import RUNS, Object
from inferrun.resources import parse_run
from inferrun.resources.status import ScheduledTimes, TimeOutcome
from inferrun.timestamps import parse

NAMESPACE = "fires"
MINUTE = timedelta(minutes=1)
SHORT_DEADLINE = 30
"""Seconds of half of the schedules; the others have an hour."""

OUTAGE_SECONDS = 45.0
"""Longer than the one deadline, shorter than the other."""

POLICIES = ("Forbid", "Allow", "Replace")
SETTLE_SECONDS = 600.0


@dataclass
class FireFindings:
    """What was found. `problems` are violations of what is promised."""

    times: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    withdrawn: int = 0
    containers: int = 0
    problems: list[str] = field(default_factory=list)

    def section(self, schedules: int) -> str:
        outages = ", ".join(f"{name} {count}" for name, count in sorted(self.kills.items()))
        rows = {
            "Schedules that fire every minute": schedules,
            "Kills and outages": outages,
            "Scheduled times": self.times,
            **{f"of these, {name}": self.outcomes[name] for name in TimeOutcome},
            "Runs created by schedules": self.runs,
            "of these, deleted before anything was executed": self.withdrawn,
            "Containers started": self.containers,
            "Violations": "; ".join(self.problems[:5]) or "none",
        }
        lines = [f"{machine()}.", "", "| Figure | Value |", "| --- | --- |"]
        return "\n".join([*lines, *(f"| {name} | {value} |" for name, value in rows.items())])


def behave(run: str, _launch: int, _verifies: bool) -> Container:  # noqa: FBT001 -- as `Behave` has it
    """A third of the runs is in progress when the next time is due."""
    return Container(message=success_message(), ends_after=70.0 if "-long-" in run else 0.2)


class Fires:
    """One installation, its schedules and everything that they have ever created."""

    def __init__(self, ground: World, installation: Installation, *, schedules: int) -> None:
        self._ground = ground
        self._installation = installation
        self._servers = Servers(ground.plane, ground.folder)
        self._names = [
            f"s{number:04d}-{'long' if number % 3 == 0 else 'short'}" for number in range(schedules)
        ]
        self._seen: defaultdict[str, set[str]] = defaultdict(set)
        """The UIDs of all runs of schedules by name."""
        self._launched: defaultdict[str, set[str]] = defaultdict(set)
        """Of these, the ones that had a Job."""
        self._findings = FireFindings()

    async def run(self) -> FireFindings:
        informer = Informer(self._ground.api, RUNS, namespace=NAMESPACE, listener=self._on_run)
        watching = asyncio.create_task(informer.run())
        try:
            await create_config(self._ground.api, NAMESPACE, "iris")
            for number, name in enumerate(self._names):
                # Any: JSON
                spec: dict[str, Any] = {
                    "concurrencyPolicy": POLICIES[(number // 2) % len(POLICIES)]
                }
                if number % 2:
                    spec["startingDeadlineSeconds"] = SHORT_DEADLINE
                await create_run(
                    self._ground.api, NAMESPACE, name, config="iris", schedule="* * * * *", **spec
                )
            await self._harm()
            for name in self._names:
                await self._ground.api.patch(RUNS, NAMESPACE, name, {"spec": {"suspend": True}})
            end = self._ground.api.now().replace(second=0, microsecond=0)
            await asyncio.sleep(20)
            try:
                await until(
                    "all times are settled",
                    lambda: not self._unsettled(informer, end),
                    seconds=SETTLE_SECONDS,
                )
            except NotInTime:
                self._findings.problems += [
                    f"{name}: not settled" for name in self._unsettled(informer, end)
                ]
            self._check(informer)
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            self._servers.close()
        return self._findings

    def _on_run(self, key: Key, _before: Object | None, after: Object | None) -> None:
        if after is not None and wellknown.LABEL_SCHEDULE_UID in (
            after["metadata"].get("labels") or {}
        ):
            uid = after["metadata"]["uid"]
            self._seen[key[1]].add(uid)
            if "jobStatus" in (after.get("status") or {}):
                self._launched[key[1]].add(uid)

    async def _harm(self) -> None:
        """Kills at the minutes, then outages."""
        shim, worker = self._installation.shim, self._installation.worker
        await _next_minute(5)
        for _ in range(2):
            for kill, name in ((shim.kill, "shim killed"), (worker.kill, "worker killed")):
                await self._kill(kill, name)
            await _next_minute(-1)
            self._findings.kills["Temporal down for 10 s"] += 1
            await self._servers.kill("temporal", down_seconds=10)
        for names in (("worker",), ("temporal",), ("shim", "worker", "temporal")):
            await _next_minute(-3)
            self._findings.kills[f"{' and '.join(names)} down for {OUTAGE_SECONDS:.0f} s"] += 1
            await self._stop(names)
            await asyncio.sleep(OUTAGE_SECONDS)
            self._start(names)
        await _next_minute(-3)
        self._findings.kills["Temporal's database lost"] += 1
        await self._stop(("temporal",))
        for name in DATABASE:
            (self._ground.folder / name).unlink(missing_ok=True)
        await asyncio.sleep(OUTAGE_SECONDS)
        self._start(("temporal",))
        await _next_minute(30)

    async def _kill(self, kill: Callable[[], None], name: str) -> None:
        await _next_minute(-2)
        for _ in range(4):
            kill()
            self._findings.kills[name] += 1
            await asyncio.sleep(1.5)

    async def _stop(self, names: tuple[str, ...]) -> None:
        for name in names:
            program = {"shim": self._installation.shim, "worker": self._installation.worker}.get(
                name
            )
            await (program.stop() if program is not None else self._servers.stop(name))

    def _start(self, names: tuple[str, ...]) -> None:
        for name in reversed(names):
            program = {"shim": self._installation.shim, "worker": self._installation.worker}.get(
                name
            )
            if program is not None:
                program.start()
            else:
                self._servers.start(name)

    def _accounts(self, informer: Informer) -> dict[str, ScheduledTimes | None]:
        found = {name: informer.get(NAMESPACE, name) for name in self._names}
        return {
            name: parse_run(item).status.times if item is not None else None
            for name, item in found.items()
        }

    def _unsettled(self, informer: Informer, end: datetime) -> list[str]:
        accounts = self._accounts(informer)
        return [
            name for name, account in accounts.items() if account is None or account.until < end
        ]

    def _check(self, informer: Informer) -> None:
        findings = self._findings
        started = {
            (run, launch): count
            for (run, launch), count in self._ground.node.starts.items()
            if is_launch(launch)
        }
        executed = {run for run, _ in started}
        # Two submissions that each find the run of the other one delete theirs, before anything is
        # executed.
        withdrawn = {
            one
            for one in self._seen
            if one not in executed and informer.get(NAMESPACE, one) is None
        }
        for name, account in self._accounts(informer).items():
            item = informer.get(NAMESPACE, name)
            if item is None or account is None:
                findings.problems.append(f"{name}: has no account")
                continue
            first = _minute_after(parse(item["metadata"]["creationTimestamp"]))
            expected = {
                first + number * MINUTE for number in range((account.until - first) // MINUTE + 1)
            }
            counts = {outcome: getattr(account, outcome.lower()) for outcome in TimeOutcome}
            findings.times += len(expected)
            findings.outcomes.update({str(outcome): count for outcome, count in counts.items()})
            if sum(counts.values()) != len(expected):
                findings.problems.append(f"{name}: {len(expected)} times, counted {counts}")
            seen = {one for one in self._seen if one.startswith(f"{name}-")}
            times = {f"{name}-{time:%Y%m%d%H%M%S}" for time in expected}
            if (
                not len((seen - withdrawn) & times)
                <= counts[TimeOutcome.STARTED]
                <= len(seen & times)
            ):
                findings.problems.append(
                    f"{name}: {len(seen & times)} runs, {counts[TimeOutcome.STARTED]} times with a run"
                )
            for one in account.recent:
                run = f"{name}-{one.time:%Y%m%d%H%M%S}"
                if (
                    run not in seen
                    if one.outcome is TimeOutcome.STARTED
                    else run in seen - withdrawn
                ):
                    findings.problems.append(f"{name}: {one.outcome} at {one.time} is wrong")
        findings.runs, findings.withdrawn = len(self._seen), len(withdrawn)
        findings.containers = sum(started.values())
        findings.problems += [
            f"{name} was launched as {len(uids)} runs"
            for name, uids in self._launched.items()
            if len(uids) > 1
        ]
        findings.problems += [
            f"{run} was started {count} times" for (run, _), count in started.items() if count > 1
        ]


async def _next_minute(offset: float) -> None:
    """Sleep until so many seconds after the next minute, at least a few seconds."""
    left = 60 - time.time() % 60 + offset
    await asyncio.sleep(left if left > 2 else left + 60)


def _minute_after(moment: datetime) -> datetime:
    return moment.replace(second=0, microsecond=0) + MINUTE


async def fire(folder: Path, *, schedules: int) -> FireFindings:
    async with (
        world(folder, behave=behave) as ground,
        ground.installation(NAMESPACE, POLLING_INTERVAL="60") as installation,
    ):
        return await Fires(ground, installation, schedules=schedules).run()


def main() -> int:
    """Draw up the account; the exit code is 0 if everything that is promised held."""
    parser = argparse.ArgumentParser(
        prog="campaigns.faults.fires", description="Kill programs around fire times"
    )
    parser.add_argument(
        "--schedules", type=int, default=200, help="number of schedules (default: 200)"
    )
    parser.add_argument(
        "--keep", type=Path, help="folder for data and logs (default: a temporary one)"
    )
    parser.add_argument("--record", action="store_true", help=f"write the figures to {PAGE.name}")
    given = parser.parse_args()
    with folder_for("fires", given.keep) as folder:
        findings = asyncio.run(fire(folder, schedules=given.schedules))
    publish("fires", findings.section(given.schedules), is_recorded=given.record)
    sys.stdout.write("".join(f"{problem}\n" for problem in findings.problems))
    return 1 if findings.problems else 0


if __name__ == "__main__":
    sys.exit(main())
