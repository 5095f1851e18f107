"""Scheduled runs of an installed product: Temporal keeps the time, the resource determines the schedule."""

import asyncio
import json
import time
from datetime import UTC, datetime

import pytest
from temporalio.client import Client

from inferrun import wellknown
from inferrun.names import schedule_id
from inferrun.run_ref import RunRef
from tests.e2e.stage import SYSTEM, Object, Space, run, until

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
    assert child["spec"] == {"configRef": {"name": "actor"}, "timeoutSeconds": 50}
    status = until(lambda: _with(space, name, "lastSuccessfulTime"), seconds=60, what="the last success is reported")
    assert datetime.fromisoformat(status["lastScheduleTime"]) == times[0]
    until(
        lambda: (later := next_times(space, name)) and later[0] > times[0], seconds=60, what="the next time is reported"
    )


def _with(space: Space, name: str, field: str) -> Object | None:
    status = space.status(name)
    return status if status.get(field) else None


@pytest.mark.thorough
def test_an_edit_updates_the_temporal_schedule(space: Space) -> None:
    name = keep(space, schedule("edited", every="0 9 * * *"))
    edit(
        space,
        name,
        schedule="30 11 * * *",
        timeZone="Asia/Tokyo",
        concurrencyPolicy="Allow",
        startingDeadlineSeconds=60,
    )

    until(lambda: all(moment.hour == 2 for moment in next_times(space, name)), seconds=30, what="the edit is reported")

    found = described(space, identity(space, name))
    assert found is not None
    assert found["schedule"]["spec"]["timezoneName"] == "Asia/Tokyo"
    [calendar] = found["schedule"]["spec"]["structuredCalendar"]
    assert (calendar["hour"][0]["start"], calendar["minute"][0]["start"]) == (11, 30)
    assert found["schedule"]["policies"]["overlapPolicy"] == "SCHEDULE_OVERLAP_POLICY_ALLOW_ALL"
    assert found["schedule"]["policies"]["catchupWindow"] == "60s"


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
def test_suspending_a_schedule_pauses_it_until_it_is_resumed(space: Space) -> None:
    name = keep(space, schedule("pausing"))
    edit(space, name, suspend=True)
    space.wait_for(name, phase="Suspended", reason="Suspended", seconds=30)
    found = described(space, identity(space, name))
    assert found is not None
    assert found["schedule"]["state"]["paused"] is True
    assert next_times(space, name) == []

    edit(space, name, suspend=False)
    space.wait_for(name, phase="Scheduled", seconds=30)
    found = described(space, identity(space, name))
    assert found is not None
    assert not found["schedule"]["state"].get("paused")


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
def test_concurrent_runs_start_only_with_the_policy_allow(space: Space) -> None:
    name = keep(space, schedule("alone", parameters={"sleep": "600"}))
    fire(space, name)
    until(lambda: phases(space, name) == ["Running/Running"], seconds=SECONDS, what="a child runs")
    fire(space, name)
    until(lambda: _skipped(space, name) == 1, seconds=30, what="the fire was skipped")
    assert len(children(space, name)) == 1
    assert [active["name"] for active in space.status(name)["active"]] == [children(space, name)[0]["metadata"]["name"]]

    edit(space, name, concurrencyPolicy="Allow")
    until(lambda: _policy(space, name).endswith("ALLOW_ALL"), seconds=30, what="the edit")
    fire(space, name)
    until(lambda: phases(space, name) == ["Running/Running"] * 2, seconds=SECONDS, what="two children run")


def _skipped(space: Space, name: str) -> int:
    found = described(space, identity(space, name))
    assert found is not None
    return int(found["info"].get("overlapSkipped", 0))


def _policy(space: Space, name: str) -> str:
    found = described(space, identity(space, name))
    assert found is not None
    return str(found["schedule"]["policies"]["overlapPolicy"])


@pytest.mark.thorough
def test_replace_cancels_the_active_run_and_starts_the_next(space: Space) -> None:
    name = keep(space, schedule("replacing", concurrencyPolicy="Replace", parameters={"sleep": "600"}))
    fire(space, name)
    until(lambda: phases(space, name) == ["Running/Running"], seconds=SECONDS, what="a child runs")
    fire(space, name)
    expected = ["Failed/Cancelled", "Running/Running"]
    until(lambda: phases(space, name) == expected, seconds=SECONDS, what="replaced", now=lambda: phases(space, name))


@pytest.mark.thorough
def test_history_limits_keep_the_newest_runs_of_each_outcome(space: Space) -> None:
    wanted = schedule("tidy", concurrencyPolicy="Allow", successfulJobsHistoryLimit=1, failedJobsHistoryLimit=1)
    name = keep(space, wanted)
    for ending in ("0", "4", "0", "4"):
        edit(space, name, parameters={"exit": ending})
        before = {child["metadata"]["name"] for child in children(space, name)}
        fire(space, name)
        until(lambda: _new_and_ended(space, name, before), seconds=SECONDS, what=f"a child that exits {ending}")  # noqa: B023
    expected = ["Succeeded/Succeeded", "Failed/InferenceFailed"]
    until(lambda: phases(space, name) == expected, seconds=60, what="pruned", now=lambda: phases(space, name))


@pytest.mark.thorough
def test_a_run_that_is_not_kept_is_deleted_only_after_its_submission_has_read_its_end(space: Space) -> None:
    name = keep(space, schedule("keeping-none", successfulJobsHistoryLimit=0))
    submissions: list[str] = []
    for _ in range(3):
        fire(space, name)
        [child] = until(lambda: _of_last_fire(space, name, submissions), seconds=30, what="a child")
        submissions.append(child["metadata"]["annotations"][wellknown.ANNOTATION_WORKFLOW_ID])
        ended = until(lambda: _closed(space, submissions[-1]), seconds=SECONDS, what="its submission closed")
        assert ended == "WORKFLOW_EXECUTION_STATUS_COMPLETED"
    until(lambda: not children(space, name), seconds=60, what="pruned", now=lambda: phases(space, name))


def _of_last_fire(space: Space, name: str, submissions: list[str]) -> list[Object]:
    """The child whose submission is not among these."""
    found = children(space, name)
    return [
        item for item in found if item["metadata"]["annotations"][wellknown.ANNOTATION_WORKFLOW_ID] not in submissions
    ]


def _closed(space: Space, workflow_id: str) -> str | None:
    """The status with which a workflow has closed; None if it is open."""
    described = json.loads(space.stage.temporal("workflow", "describe", "-w", workflow_id, "-o", "json"))
    status = str(described["workflowExecutionInfo"]["status"])
    return None if status.endswith("RUNNING") else status


def _new_and_ended(space: Space, name: str, before: set[str]) -> bool:
    new = [child for child in children(space, name) if child["metadata"]["name"] not in before]
    return bool(new) and (new[0].get("status") or {}).get("phase") in ("Succeeded", "Failed")


@pytest.mark.thorough
def test_an_expression_that_never_fires_is_reported_and_pauses_the_schedule(space: Space) -> None:
    name = keep(space, schedule("wrong", every="0 9 * * *"))
    edit(space, name, schedule="0 0 31 2 *")
    status = space.wait_for(name, phase="Suspended", reason="InvalidSchedule", seconds=30)
    assert "spec.schedule" in status["message"]
    found = described(space, identity(space, name))
    assert found is not None
    assert found["schedule"]["state"]["paused"] is True

    edit(space, name, schedule="0 10 * * *")
    space.wait_for(name, phase="Scheduled", seconds=30)
    assert all(moment.hour == 10 for moment in next_times(space, name))


@pytest.mark.thorough
def test_a_schedule_whose_inference_run_is_gone_deletes_itself_when_it_fires(space: Space) -> None:
    """The Temporal schedule still exists after the deletion of its InferenceRun, which no shim has noticed."""
    parent = {"name": "lost", "uid": f"uid-{space.name}"}
    lost = f"inferencerun/{space.name}/lost/{parent['uid']}"
    words = ("--schedule-id", lost, "--workflow-id", lost, "--type", "SubmitInferenceRun", "--task-queue", "inferrun")
    cluster = space.stage.kubectl("get", "namespace", "kube-system", "-o", "jsonpath={.metadata.uid}")
    run_memo = json.dumps({"namespace": space.name, **parent})
    memo = ("--schedule-memo", f'installation="{SYSTEM}.inferrun.{cluster}"', "--schedule-memo", f"run={run_memo}")
    argument = json.dumps({"namespace": space.name, "parent": parent})
    space.stage.temporal("schedule", "create", *words, *memo, "--calendar", '{"hour":"3"}', "--input", argument)
    space.stage.temporal("schedule", "trigger", "-s", lost)
    until(lambda: described(space, lost) is None, seconds=30, what="no Temporal schedule")
    assert space.items("inferenceruns") == []


@pytest.mark.thorough
def test_a_schedule_with_the_longest_allowed_name_fires(space: Space) -> None:
    name = keep(space, schedule("long." + "x" * 248, every="0 9 * * MON"))
    fire(space, name)
    until(lambda: phases(space, name) == ["Succeeded/Succeeded"], seconds=SECONDS, what="a child succeeded")
    assert len(children(space, name)[0]["metadata"]["name"]) == 253
