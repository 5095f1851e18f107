"""A back-fill whose workflow is lost with all of Temporal's database goes on, and executes nothing twice."""

from pathlib import Path
from typing import Any

import pytest

from inferrun import wellknown
from inferrun.kube.objects import RUNS
from tests.faults.node import Container
from tests.faults.recovery import DATABASE
from tests.faults.scenarios import success_message
from tests.faults.servers import Servers
from tests.faults.users import create_config, create_run
from tests.faults.world import World, until, world

pytestmark = pytest.mark.thorough

NAMESPACE = "lost"
TOKEN = "c00001q"
SCHEDULE, BACKFILL = f"{TOKEN}-hourly", f"{TOKEN}-morning"
HOURS = range(12)
NAMES = [f"{SCHEDULE}-20250101{hour:02}0000" for hour in HOURS]
DONE, AT_A_TIME = 4, 3
SECONDS = 300.0


def behave(run: str, _launch: int, _verifies: bool) -> Container:  # noqa: FBT001 -- as `Behave` has it
    """The first runs end by themselves, the others when they are released."""
    return Container(message=success_message(), ends_after=0.1 if run in NAMES[:DONE] else None)


def status(ground: World, name: str) -> dict[str, Any]:  # Any: JSON
    found = (ground.recorder.run_named(NAMESPACE, name) or {}).get("status") or {}
    return dict(found)


async def test_a_back_fill_survives_the_loss_of_the_database(tmp_path: Path) -> None:
    async with world(tmp_path, behave=behave) as ground, ground.installation(NAMESPACE):
        servers = Servers(ground.plane, tmp_path)
        try:
            await create_config(ground.api, NAMESPACE, "iris")
            await create_run(ground.api, NAMESPACE, SCHEDULE, config="iris", schedule="0 * * * *", suspend=True)
            period = {"start": "2025-01-01T00:00:00Z", "end": "2025-01-01T11:00:00Z"}
            spec = {"backfill": {"schedule": SCHEDULE, "concurrency": AT_A_TIME, **period}}
            kind = {"apiVersion": wellknown.API_VERSION, "kind": wellknown.RUN_KIND}
            await ground.api.create(RUNS, NAMESPACE, {**kind, "metadata": {"name": BACKFILL}, "spec": spec})
            running = NAMES[DONE : DONE + AT_A_TIME]
            await until(
                "some have ended and the next ones are running",
                lambda: all(status(ground, name).get("phase") == "Running" for name in running),
                seconds=SECONDS,
            )
            await servers.stop("temporal")
            for name in DATABASE:
                (tmp_path / name).unlink(missing_ok=True)
            servers.start("temporal")
            for name in NAMES:
                await ground.node.release(name)
            await until(
                "the back-fill has ended", lambda: status(ground, BACKFILL).get("completionTime"), seconds=SECONDS
            )
        finally:
            servers.close()
    assert status(ground, BACKFILL)["phase"] == "Succeeded"
    assert status(ground, BACKFILL)["backfill"] == {
        "total": len(NAMES),
        "succeeded": len(NAMES),
        "failed": 0,
        "skipped": 0,
        "running": 0,
    }
    created = [ref.name for ref in ground.recorder.traces(TOKEN).runs.values()]
    assert sorted(created) == sorted([SCHEDULE, BACKFILL, *NAMES])
    assert {run: count for (run, _), count in ground.node.starts.items()} == dict.fromkeys(NAMES, 1)
    assert len(ground.node.starts) == len(NAMES)
