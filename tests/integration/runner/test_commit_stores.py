"""Buckets and databases: the exit code is 0 if and only if the manifest exists, whenever the
process is stopped."""

import asyncio
import signal
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.integration.runner.pods import Ended, Machine, Pod, until
from tests.integration.runner.postgres_server import Postgres
from tests.integration.runner.s3_server import S3Server, credentials
from tests.integration.runner.servers import passed_on

SLOW, HANGING = 0.5, 3600.0
_PAUSING_CLIENT = """
import os, pathlib, time
import obstore

STEP, MARKER, SECONDS = os.environ["PAUSE_STEP"], pathlib.Path(os.environ["PAUSE_MARKER"]), float(os.environ["PAUSE_SECONDS"])
put, listed = obstore.put, obstore.list
stored = False


def pause(step):
    if step == STEP and not MARKER.exists():
        MARKER.touch()
        time.sleep(SECONDS)


def paused_put(store, key, *arguments, **options):
    global stored
    is_manifest = key.endswith("manifest.json")
    if is_manifest:
        pause("before")
    found = put(store, key, *arguments, **options)
    stored = stored or is_manifest
    if is_manifest:
        pause("after")
    return found


def paused_list(*arguments, **options):
    if stored:
        pause("cleanup")
    return listed(*arguments, **options)


obstore.put, obstore.list = paused_put, paused_list
"""
"""A `sitecustomize` module that pauses the client of a bucket, as a server that responds late
does."""

COMMITS_AT_DEADLINE = """
import os, time
import obstore

put, started = obstore.put, time.monotonic()


def late_put(store, key, *arguments, **options):
    if key.endswith("manifest.json"):
        time.sleep(max(0, float(os.environ["INFERRUN_SECONDS_LEFT"]) - 0.5 - (time.monotonic() - started)))
    return put(store, key, *arguments, **options)


obstore.put = late_put
"""
"""A `sitecustomize` module that commits half a second before the deadline."""


def write_rows(machine: Machine) -> None:
    machine.write_rows([index, 1] for index in range(100))


def assert_consistent(ended: Ended, *, is_committed: bool, code: int) -> None:
    assert (ended.code == 0) == is_committed, ended.stderr
    if ended.code == 0:
        assert (ended.result.reason, ended.message) == ("Succeeded", "100 of 100 records predicted")
    else:
        assert ended.code == code


async def stopped(pod: Pod) -> Ended:
    pod.signal(signal.SIGTERM)
    return await asyncio.wait_for(pod.end(), 60)


def to_bucket(
    machine: Machine, s3: S3Server, folder: Path, *, step: str, seconds: float
) -> dict[str, str]:
    """Write to a bucket, and return the environment of a process that pauses at a step."""
    write_rows(machine)
    machine.contract["output"] = {"s3": s3.spec("out")}
    credentials(machine.folder / "endpoints" / "output")
    (folder / "sitecustomize.py").write_text(_PAUSING_CLIENT)
    return {
        "PYTHONPATH": str(folder),
        "PAUSE_STEP": step,
        "PAUSE_MARKER": str(folder / "paused"),
        "PAUSE_SECONDS": str(seconds),
    }


@asynccontextmanager
async def slow_commit(server: str, seen: asyncio.Event, *, seconds: float) -> AsyncIterator[str]:
    """Forward connections to a server, the request for the manifest only after some seconds, even
    if the client is gone by then."""
    target = urlsplit(server)

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(target.hostname, target.port)
        back = asyncio.create_task(passed_on(from_server, writer))
        while data := await reader.read(1 << 16):
            if data.startswith(b"PUT ") and b"manifest.json" in data.partition(b"\r\n")[0]:
                seen.set()
                await asyncio.sleep(seconds)
            to_server.write(data)
        await asyncio.wait([back], timeout=seconds)
        to_server.close()

    async with await asyncio.start_server(forward, "127.0.0.1", 0) as proxy:
        yield f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize("cause", ["SIGTERM", "deadline"])
@pytest.mark.parametrize("seconds", [2.6, 8.0], ids=["slow", "slower"])
async def test_a_manifest_that_appears_later_is_waited_for_or_the_question_is_left_open(
    file: Machine, s3: S3Server, tmp_path: Path, cause: str, seconds: float
) -> None:
    write_rows(file)
    credentials(file.folder / "endpoints" / "output")
    seen = asyncio.Event()
    async with slow_commit(s3.url, seen, seconds=seconds) as proxy:
        file.contract["output"] = {"s3": {**s3.spec("out"), "endpoint": proxy}}
        if cause == "deadline":
            at_deadline = {"INFERRUN_SECONDS_LEFT": "15"}
            (tmp_path / "sitecustomize.py").write_text(COMMITS_AT_DEADLINE)
            ended = await file.process(PYTHONPATH=str(tmp_path), **at_deadline)
        else:
            pod = await file.start()
            await asyncio.wait_for(seen.wait(), 60)
            ended = await stopped(pod)
        assert seen.is_set()
        await until(lambda: is_in_bucket(file, s3))
    if seconds < 3:
        assert_consistent(ended, is_committed=True, code=0)
    else:
        assert (ended.code, ended.is_readable) == (143 if cause == "SIGTERM" else 6, False)
        assert "whether the run is committed is not known" in ended.message


async def test_a_table_that_commits_after_the_process_has_ended_leaves_the_question_open(
    file: Machine, postgres: Postgres
) -> None:
    await to_table(file, postgres, seconds=8)
    postgres.execute("drop trigger slow on inferrun_runs")
    postgres.execute(
        "create constraint trigger slow after update on inferrun_runs deferrable initially deferred "
        "for each row execute function slow()"
    )
    pod = await file.start()
    await until(lambda: is_committing(postgres) or pod.process.returncode is not None, seconds=60)
    ended = await stopped(pod)
    assert (ended.code, ended.is_readable) == (143, False)
    await until(lambda: is_in_table(file, postgres))


def is_in_bucket(machine: Machine, s3: S3Server) -> bool:
    return (s3.bucket / "out" / str(machine.contract["jobName"]) / "manifest.json").exists()


@pytest.mark.thorough
@pytest.mark.parametrize("seconds", [SLOW, HANGING], ids=["slow", "hanging"])
@pytest.mark.parametrize("step", ["before", "after", "cleanup"])
async def test_sigterm_during_the_commit_to_a_bucket(
    file: Machine, s3: S3Server, tmp_path: Path, step: str, seconds: float
) -> None:
    pod = await file.start(environment=to_bucket(file, s3, tmp_path, step=step, seconds=seconds))
    await until((tmp_path / "paused").exists, seconds=60)
    ended = await stopped(pod)
    assert_consistent(ended, is_committed=is_in_bucket(file, s3), code=143)
    assert ended.code == 0 or (step, seconds) == ("before", HANGING)


async def to_table(machine: Machine, postgres: Postgres, *, seconds: float) -> None:
    """Write to a table of a database that takes so long to store the manifest."""
    write_rows(machine)
    run = str(uuid.uuid4())
    machine.contract |= {"jobId": run, "runId": run}
    machine.contract["output"] = {
        "sql": {"credentialsRef": {"name": "database"}, "table": "predictions"}
    }
    postgres.mount(machine.folder / "endpoints" / "output")
    if postgres.execute("select to_regclass('inferrun_runs')") == [(None,)]:
        machine.contract["jobId"] = machine.contract["runId"] = str(uuid.uuid4())
        assert (await machine.process()).code == 0
        machine.contract["jobId"] = machine.contract["runId"] = run
    postgres.execute("drop trigger if exists slow on inferrun_runs")
    postgres.execute(
        "create or replace function slow() returns trigger language plpgsql as "
        f"$$ begin perform pg_sleep({seconds}); return new; end $$"
    )
    postgres.execute(
        "create trigger slow before update on inferrun_runs for each row execute function slow()"
    )


def is_committing(postgres: Postgres) -> bool:
    return bool(postgres.execute("select 1 from pg_stat_activity where wait_event = 'PgSleep'"))


def is_in_table(machine: Machine, postgres: Postgres) -> bool:
    found = postgres.execute(
        "select manifest is not null from inferrun_runs where run = %s", machine.contract["runId"]
    )
    return found == [(True,)]


def end_sleep(postgres: Postgres) -> None:
    postgres.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'PgSleep'"
    )


@pytest.mark.thorough
@pytest.mark.parametrize("seconds", [SLOW, HANGING], ids=["slow", "hanging"])
async def test_sigterm_during_the_commit_to_a_table(
    file: Machine, postgres: Postgres, seconds: float
) -> None:
    await to_table(file, postgres, seconds=seconds)
    pod = await file.start()
    await until(lambda: is_committing(postgres) or pod.process.returncode is not None, seconds=60)
    ended = await stopped(pod)
    end_sleep(postgres)
    assert_consistent(ended, is_committed=is_in_table(file, postgres), code=143)
    assert (ended.code == 0) == (seconds == SLOW)
