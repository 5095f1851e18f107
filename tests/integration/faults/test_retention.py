"""Runs, schedules and submissions when Temporal keeps a closed workflow for two seconds: nothing
runs twice, and no status changes.

Temporal's API accepts no retention of less than an hour, so its database is changed.
"""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from campaigns.faults.node import Container
from campaigns.faults.recovery import OPEN_RUNS
from campaigns.faults.scenarios import success_message
from campaigns.faults.servers import Servers
from campaigns.faults.users import create_config, create_run
from campaigns.faults.world import World, until, world
from inferrun.kube.objects import RUNS, Object
from inferrun.names import run_workflow_id
from inferrun.run_ref import RunRef
from inferrun.submission import WORKFLOW_TYPE

pytestmark = pytest.mark.thorough

NAMESPACE = "retention"
LONG, FINISHED, RETRY, SUBMITTED, EVERY_MINUTE = (
    f"c{number:05d}q-{name}"
    for number, name in enumerate(("long", "finished", "retry", "submitted", "every-minute"))
)
SECONDS = 180

A_DAY, TWO_SECONDS = b"\x08\x80\xa3\x05", b"\x08\x82\x80\x00"
"""The development server's retention, and a shorter one, as protobuf encodes a duration; in as many
bytes."""

FLAGS = ('history.retentionTimerJitterDuration="0s"', "limit.historyCount.suggestContinueAsNew=40")


def behave(run: str, _launch: int, _verifies: bool) -> Container:  # noqa: FBT001 -- as `Behave` has it
    return Container(message=success_message(), ends_after=None if run == LONG else 0.1)


async def shorten_retention(ground: World, servers: Servers) -> None:
    await servers.stop("temporal")
    with sqlite3.connect(ground.folder / "temporal.db") as database:
        ((data,),) = database.execute("select data from namespaces where name = 'default'")
        assert data.count(A_DAY) == 1
        database.execute(
            "update namespaces set data = ? where name = 'default'",
            [data.replace(A_DAY, TWO_SECONDS)],
        )
    database.close()
    servers.start(
        "temporal", *(word for flag in FLAGS for word in ("--dynamic-config-value", flag))
    )
    await until("Temporal answers", ground.temporal.count_workflows, seconds=SECONDS)


async def test_nothing_runs_twice_if_the_retention_is_shorter_than_a_run(tmp_path: Path) -> None:
    async with world(tmp_path, behave=behave) as ground:
        servers = Servers(ground.plane, ground.folder)
        try:
            await shorten_retention(ground, servers)
            await live(ground)
        finally:
            servers.close()


async def live(ground: World) -> None:
    api, temporal, recorder = ground.api, ground.temporal, ground.recorder

    def item(name: str) -> Object:
        return recorder.run_named(NAMESPACE, name) or {}

    def status(name: str) -> Object:
        return item(name).get("status") or {}

    def ref(name: str) -> RunRef:
        return RunRef(namespace=NAMESPACE, name=name, uid=item(name)["metadata"]["uid"])

    def children() -> dict[str, RunRef]:
        """The runs of the schedule by UID, those that were pruned included."""
        runs = recorder.traces(EVERY_MINUTE[:7]).runs
        return {uid: run for uid, run in runs.items() if run.name != EVERY_MINUTE}

    async def until_phase(name: str, phase: str) -> None:
        await until(
            f"{name} is {phase}", lambda: status(name).get("phase") == phase, seconds=SECONDS
        )

    async def until_forgotten(identity: str, link: str | None = None) -> None:
        # Any: started by name
        handle: WorkflowHandle[Any, Any] = temporal.get_workflow_handle(identity, run_id=link)

        async def is_forgotten() -> bool:
            try:
                await handle.describe()
            except RPCError as error:
                return error.status is RPCStatusCode.NOT_FOUND
            return False

        await until(f"{identity} is forgotten", is_forgotten, seconds=SECONDS)

    async def submit() -> Object:
        argument = {"namespace": NAMESPACE, "configRef": "iris"}
        result: Object = await temporal.execute_workflow(
            WORKFLOW_TYPE, argument, id=SUBMITTED, task_queue=NAMESPACE, result_type=dict
        )
        await until_forgotten(SUBMITTED)
        return result

    async with ground.installation(NAMESPACE, POLLING_INTERVAL="5") as installation:
        await create_config(api, NAMESPACE, "iris")
        await create_run(
            api,
            NAMESPACE,
            EVERY_MINUTE,
            config="iris",
            schedule="* * * * *",
            successfulJobsHistoryLimit=0,
        )
        await create_run(api, NAMESPACE, LONG, config="iris")
        await create_run(api, NAMESPACE, FINISHED, config="iris")

        await until_phase(FINISHED, "Succeeded")
        await until_forgotten(run_workflow_id(ref(FINISHED)))
        finished = item(FINISHED)
        submitted = await submit()

        await until_phase(LONG, "Running")
        identity, links, seconds = run_workflow_id(ref(LONG)), dict[str, None](), 1000

        async def is_third_link() -> bool:
            nonlocal seconds
            seconds += 1
            await api.patch(RUNS, NAMESPACE, LONG, {"spec": {"timeoutSeconds": seconds}})
            links[(await temporal.get_workflow_handle(identity).describe()).run_id] = None
            return len(links) == 3

        await until(
            "the workflow of the long run was continued as new twice",
            is_third_link,
            seconds=SECONDS,
        )
        for link in list(links)[:2]:
            await until_forgotten(identity, link)

        await until("the schedule has fired", children, seconds=SECONDS)
        first = next(iter(children().values()))
        await until("its run is pruned", lambda: not item(first.name), seconds=SECONDS)
        await until_forgotten(run_workflow_id(first))

        installation.shim.kill()
        await create_run(api, NAMESPACE, RETRY, config="iris", retryOf=FINISHED)
        await until_phase(RETRY, "Succeeded")
        assert await submit() == submitted
        fired = len(children())
        await until("the schedule fires again", lambda: len(children()) > fired, seconds=SECONDS)
        await api.patch(RUNS, NAMESPACE, EVERY_MINUTE, {"spec": {"suspend": True}})
        await until(
            "each time is counted once",
            lambda: status(EVERY_MINUTE)["times"]["started"] == len(children()),
            seconds=SECONDS,
        )
        assert status(LONG)["phase"] == "Running"
        await ground.node.release(LONG)
        await until_phase(LONG, "Succeeded")

        async def are_closed() -> bool:
            return not [one async for one in temporal.list_workflows(OPEN_RUNS)]

        await until("no workflow of a run is open", are_closed, seconds=SECONDS)

    assert item(FINISHED) == finished
    assert len({run.name for run in children().values()}) == len(children())
    for name in (LONG, FINISHED, RETRY, SUBMITTED, EVERY_MINUTE):
        traces, count = recorder.traces(name[:7]), len(children()) if name == EVERY_MINUTE else 1
        assert [len(uids) for uids in traces.jobs.values()] == [1] * count, name
        assert [len(seen) for seen in traces.terminal.values()] == [1] * count, name
