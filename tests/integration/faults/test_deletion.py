"""Runs and namespaces are deleted at any moment while shim, worker and Temporal are down: nothing
is left afterwards."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Any  # JSON

import pytest
from temporalio.client import Client
from temporalio.service import RPCError

from campaigns.faults.node import Container
from campaigns.faults.scenarios import failure_message, success_message
from campaigns.faults.servers import Servers
from campaigns.faults.users import create_config, create_run, delete
from campaigns.faults.world import Installation, World, create_namespace, until, world
from inferrun import wellknown
from inferrun.kube.objects import NAMESPACES, RUNS
from inferrun.names import schedule_id
from inferrun.reasons import Reason
from inferrun.run_ref import RunRef

pytestmark = pytest.mark.thorough

SYSTEM = "faults-system"
SECONDS = 180.0
WORKFLOWS = ("InferenceRun", "InferenceRunCleanup", "SubmitInferenceRun")
OPEN = f"ExecutionStatus = 'Running' AND WorkflowType IN {WORKFLOWS}"

MOMENTS = (
    "new",
    "waits",
    "starts",
    "running",
    "fails",
    "suspended",
    "ended",
    "autodeleted",
    "scheduled",
)
"""What a run is doing when everything goes down. `new`: it is created only then. `fails`: it waits
for its next attempt."""


@dataclass(frozen=True)
class Place:
    """A namespace with one run, and what is deleted."""

    ground: World
    moment: str
    target: str
    number: int

    @property
    def namespace(self) -> str:
        return f"{self.moment}-{self.target}"

    @property
    def name(self) -> str:
        return f"c{self.number:05d}q-{self.moment}"

    @property
    def status(self) -> dict[str, object]:
        run = self.ground.recorder.run_named(self.namespace, self.name)
        status: dict[str, object] = (run or {}).get("status") or {}
        return status

    async def create(self) -> None:
        """Create the run, with its config unless it is to wait for that."""
        api = self.ground.api
        more = (
            {"autoDeletePolicy": "DeleteOnSuccess", "autoDeleteDelaySeconds": 60}
            if self.moment == "autodeleted"
            else {}
        )
        if self.moment != "waits":
            await create_config(api, self.namespace, "iris", **more)
        specs: dict[str, dict[str, Any]] = {
            "suspended": {"suspend": True},
            "scheduled": {"schedule": "0 0 1 1 *"},
        }
        spec = specs.get(self.moment, {})
        config = "absent" if self.moment == "waits" else "iris"
        await create_run(api, self.namespace, self.name, config=config, **spec)

    async def reach(self) -> None:
        """Create the run and wait until it is at its moment."""
        await create_namespace(self.ground.api, self.namespace)
        if self.moment == "new":
            return
        await self.create()
        await until(
            f"{self.namespace} is at its moment",
            self._is_reached,
            seconds=SECONDS,
            now=lambda: self.status,
        )
        if self.moment == "scheduled":
            await self._fire()

    def _is_reached(self) -> bool:
        status = self.status
        return {
            "waits": status.get("reason") == Reason.CONFIG_NOT_FOUND,
            "starts": bool(status.get("jobStatus")),
            "running": status.get("phase") == "Running",
            "fails": status.get("reason") == Reason.RETRY_BACKOFF,
            "suspended": status.get("phase") == "Suspended",
            "scheduled": status.get("phase") == "Scheduled",
        }.get(self.moment, status.get("phase") == "Succeeded")

    async def _fire(self) -> None:
        run = self.ground.recorder.run_named(self.namespace, self.name) or {}
        ref = RunRef(namespace=self.namespace, name=self.name, uid=run["metadata"]["uid"])
        await self.ground.temporal.get_schedule_handle(schedule_id(ref)).trigger()

        def has_child() -> bool:
            return any(
                (item.get("status") or {}).get("phase") == "Running"
                for (namespace, name), item in self.ground.recorder.runs.items()
                if namespace == self.namespace and name != self.name
            )

        await until("the schedule's run is running", has_child, seconds=SECONDS)

    async def delete(self) -> None:
        """Delete the target."""
        if self.moment == "new":
            await self.create()
        api = self.ground.api
        if self.target == "namespace":
            found = await api.get(NAMESPACES, None, self.namespace)
            await api.delete(NAMESPACES, "", self.namespace, uid=found["metadata"]["uid"])
        else:
            await delete(api, RUNS, self.namespace, self.name)

    def is_empty(self) -> bool:
        """Whether nothing is left."""
        return not self.left()

    def left(self) -> list[str]:
        """What is left in the namespace, apart from its config."""
        recorder = self.ground.recorder
        found = [
            f"{kind} {name}"
            for kind, informer in (
                ("run", recorder.runs),
                ("Job", recorder.jobs),
                ("Pod", recorder.pods),
            )
            for (namespace, name), _ in informer.items()
            if namespace == self.namespace
        ]
        found += [
            f"ConfigMap {name}"
            for (namespace, name), item in recorder.config_maps.items()
            if namespace == self.namespace
            and wellknown.LABEL_RUN_UID in (item["metadata"].get("labels") or {})
        ]
        return found


def behave(run: str, _launch: int, _verifies: bool) -> Container:  # noqa: FBT001 -- as `Behave` has it
    """A container that is at the moment that its run's name says."""
    moment = next((moment for moment in MOMENTS if moment in run), "ended")
    if moment == "starts":
        return Container(unschedulable_for=3600)
    if moment == "fails":
        return Container(exit_code=4, message=failure_message())
    return Container(
        message=success_message(), ends_after=0.1 if moment in ("ended", "autodeleted") else None
    )


class OpenWork:
    """Open workflows and existing schedules."""

    def __init__(self, ground: World) -> None:
        self._temporal = ground.temporal
        self.last: list[str] = []

    async def is_none(self) -> bool:
        """Whether there is none; `last` says what there was."""
        try:
            workflows = [item.id async for item in self._temporal.list_workflows(OPEN)]
            schedules = [item.id async for item in await self._temporal.list_schedules()]
        except RPCError as error:
            self.last = [str(error)]
            return False
        self.last = [*workflows, *schedules]
        return not self.last


async def _stop(servers: Servers, installation: Installation) -> None:
    for program in installation.programs:
        await program.stop()
    await servers.stop("temporal")


async def _start(servers: Servers, installation: Installation, *, temporal: Client) -> None:
    """Programs end if Temporal does not answer for a while, and are started again: on a busy
    machine, more than once."""
    servers.start("temporal")
    await until("Temporal answers", temporal.count_workflows, seconds=SECONDS)
    for program in installation.programs:
        program.start()


@pytest.mark.parametrize("target", ["run", "namespace"])
async def test_nothing_is_left_of_what_was_deleted_while_everything_was_down(
    tmp_path: Path, target: str
) -> None:
    async with (
        world(tmp_path, behave=behave) as ground,
        ground.installation(SYSTEM, WATCH_NAMESPACE="") as installation,
    ):
        servers = Servers(ground.plane, tmp_path)
        places = [Place(ground, moment, target, number) for number, moment in enumerate(MOMENTS)]
        try:
            await asyncio.gather(*(place.reach() for place in places))
            await _stop(servers, installation)

            await asyncio.gather(*(place.delete() for place in places))

            for place in places:  # the API server needs none of us for that
                await until(f"{place.namespace} is empty", place.is_empty, seconds=SECONDS)
            await _start(servers, installation, temporal=ground.temporal)
            work = OpenWork(ground)
            await until(
                "no workflow is open, and no schedule exists",
                work.is_none,
                seconds=SECONDS,
                now=lambda: work.last,
            )
            assert [place.left() for place in places] == [[] for _ in places]
            assert {code for program in installation.programs for code in program.ends} == {-9}
        finally:
            servers.close()
