"""A scheduled run of an installed product: Temporal keeps the time, the resource determines the
schedule."""

from datetime import UTC, datetime, timedelta

from inferrun.timestamps import parse, rfc3339
from tests.e2e.stage import Object, Space, run, until


def next_time(space: Space) -> datetime | None:
    moments = space.status("minutely").get("nextScheduleTimes") or []
    return parse(moments[0]) if moments else None


def succeeded(space: Space) -> Object | None:
    """The first run of the schedule, once it has succeeded."""
    runs = space.items("inferenceruns", "inferrun.dev/schedule-uid")
    first = min(runs, key=lambda item: str(item["metadata"]["name"]), default=None)
    return first if first and (first.get("status") or {}).get("phase") == "Succeeded" else None


def test_a_schedule_creates_ordinary_runs(space: Space) -> None:
    space.apply(
        run("minutely", "actor", schedule="* * * * *", timeoutSeconds=50, timeZone="Europe/Rome")
    )
    space.wait_for("minutely", phase="Scheduled", seconds=30)
    due = next_time(space)
    assert due is not None
    assert -2 < (due - datetime.now(UTC)).total_seconds() <= 60

    child = until(lambda: succeeded(space), seconds=120, what="a child succeeded")

    assert child["metadata"]["name"] == f"minutely-{due:%Y%m%d%H%M%S}"
    assert child["metadata"]["annotations"]["inferrun.dev/scheduled-time"] == rfc3339(due)
    assert child["metadata"]["ownerReferences"][0]["name"] == "minutely"
    interval = {
        "start": rfc3339(due - timedelta(minutes=1)),
        "end": rfc3339(due),
        "timeZone": "Europe/Rome",
    }
    assert child["spec"] == {
        "configRef": {"name": "actor"},
        "timeoutSeconds": 50,
        "interval": interval,
    }
    until(
        lambda: space.status("minutely").get("lastSuccessfulTime"),
        seconds=60,
        what="the last success is reported",
    )
    assert parse(space.status("minutely")["lastScheduleTime"]) == due
    until(
        lambda: (later := next_time(space)) and later > due,
        seconds=60,
        what="the next time is reported",
    )
