"""Scheduled runs of an installed product: Temporal keeps the time, the resource determines the schedule."""

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from temporalio.client import Client

from inferrun.names import schedule_id
from inferrun.run_ref import RunRef
from tests.e2e.stage import Object, Space, run, until

SECONDS = 60
NEVER_SOON = "0 0 29 2 *"


def schedule(name: str, *, every: str = NEVER_SOON, parameters: dict[str, str] | None = None, **spec: object) -> Object:
    return run(name, "actor", parameters=parameters, schedule=every, **spec)


def identity(space: Space, name: str) -> str:
    found = space.get("inferencerun", name)
    assert found is not None
    return schedule_id(RunRef(namespace=space.name, name=name, uid=found["metadata"]["uid"]))


def described(space: Space, schedule_id: str) -> Object | None:
    """The description of the Temporal schedule; None if it does not exist."""
    try:
        found: Object = json.loads(space.stage.temporal("schedule", "describe", "-s", schedule_id, "-o", "json"))
    except AssertionError as error:
        if "not found" not in str(error):
            raise
        return None
    return found


def fire(space: Space, name: str) -> None:
    """Trigger the schedule under its own policy, and wait so that the next fire has a different second."""

    async def trigger() -> None:  # `temporal schedule trigger` would use another policy
        client = await Client.connect(space.stage.temporal_address)
        await client.get_schedule_handle(identity(space, name)).trigger()

    asyncio.run(trigger())
    time.sleep(1.01 - time.time() % 1)


def children(space: Space, name: str) -> list[Object]:
    parent = identity(space, name).rpartition("/")[2]
    found = space.items("inferenceruns", f"inferrun.dev/schedule-uid={parent}")
    return sorted(found, key=lambda item: str(item["metadata"]["name"]))


def phases(space: Space, name: str) -> list[str]:
    found = [item.get("status") or {} for item in children(space, name)]
    return [f"{status.get('phase')}/{status.get('reason')}" for status in found]


def edit(space: Space, name: str, **spec: object) -> None:
    space.kubectl("patch", "inferencerun", name, "--type=merge", "-p", json.dumps({"spec": spec}))


def next_times(space: Space, name: str) -> list[datetime]:
    return [datetime.fromisoformat(moment) for moment in space.status(name).get("nextScheduleTimes") or []]


def keep(space: Space, manifest: Object) -> str:
    """Apply a schedule and wait until it is kept; its name."""
    space.apply(manifest)
    name = str(manifest["metadata"]["name"])
    space.wait_for(name, phase="Scheduled", seconds=30)
    return name


def test_a_schedule_creates_ordinary_runs(space: Space) -> None:
    name = keep(space, schedule("minutely", every="* * * * *", timeoutSeconds=50, timeZone="Europe/Rome"))
    times = next_times(space, name)
    assert times
    assert -2 < (times[0] - datetime.now(UTC)).total_seconds() <= 60

    until(lambda: "Succeeded/Succeeded" in phases(space, name), seconds=120, what="a child succeeded")

    child = children(space, name)[0]
    due = times[0].strftime("%Y%m%d%H%M%S")
    assert child["metadata"]["name"] == f"minutely-{due}"
    assert child["metadata"]["annotations"]["inferrun.dev/scheduled-time"] == times[0].strftime("%Y-%m-%dT%H:%M:%SZ")
    assert child["metadata"]["ownerReferences"][0]["name"] == name
    before = (times[0] - timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert child["spec"] == {
        "configRef": {"name": "actor"},
        "timeoutSeconds": 50,
        "interval": {"start": before, "end": times[0].strftime("%Y-%m-%dT%H:%M:%SZ"), "timeZone": "Europe/Rome"},
    }
    status = until(lambda: _with(space, name, "lastSuccessfulTime"), seconds=60, what="the last success is reported")
    assert datetime.fromisoformat(status["lastScheduleTime"]) == times[0]
    until(
        lambda: (later := next_times(space, name)) and later[0] > times[0], seconds=60, what="the next time is reported"
    )


def _with(space: Space, name: str, field: str) -> Object | None:
    status = space.status(name)
    return status if status.get(field) else None


@pytest.mark.thorough
def test_edited_parameters_apply_to_the_next_run(space: Space) -> None:
    name = keep(space, schedule("fresh", parameters={"say": "one"}))
    fire(space, name)
    until(lambda: len(children(space, name)) == 1, seconds=30, what="a child")
    edit(space, name, parameters={"say": "two"})
    until(lambda: phases(space, name) == ["Succeeded/Succeeded"], seconds=SECONDS, what="the first ended")
    fire(space, name)
    until(lambda: len(children(space, name)) == 2, seconds=30, what="a second child")
    assert [child["spec"]["parameters"]["say"] for child in children(space, name)] == ["one", "two"]


@pytest.mark.thorough
def test_deleting_a_schedule_deletes_its_runs_and_their_pods(space: Space) -> None:
    name = keep(space, schedule("leaving", parameters={"sleep": "600"}))
    fire(space, name)
    until(lambda: phases(space, name) == ["Running/Running"], seconds=SECONDS, what="a child runs")
    gone = identity(space, name)
    space.kubectl("delete", "inferencerun", name)

    until(lambda: described(space, gone) is None, seconds=30, what="no Temporal schedule")
    until(lambda: not space.items("inferenceruns"), seconds=30, what="no run")
    until(lambda: not space.items("pods"), seconds=30, what="no Pod")


@pytest.mark.thorough
def test_replace_cancels_the_active_run_and_starts_the_next(space: Space) -> None:
    name = keep(space, schedule("replacing", concurrencyPolicy="Replace", parameters={"sleep": "600"}))
    fire(space, name)
    until(lambda: phases(space, name) == ["Running/Running"], seconds=SECONDS, what="a child runs")
    fire(space, name)
    expected = ["Failed/Cancelled", "Running/Running"]
    until(lambda: phases(space, name) == expected, seconds=SECONDS, what="replaced", now=lambda: phases(space, name))


@pytest.mark.thorough
def test_a_schedule_with_the_longest_allowed_name_fires(space: Space) -> None:
    name = keep(space, schedule("long." + "x" * 248, every="0 9 * * MON"))
    fire(space, name)
    until(lambda: phases(space, name) == ["Succeeded/Succeeded"], seconds=SECONDS, what="a child succeeded")
    assert len(children(space, name)[0]["metadata"]["name"]) == 253
