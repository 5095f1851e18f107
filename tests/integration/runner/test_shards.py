"""A run that is divided among several Pods: real processes, which are killed, on a volume and in a
bucket."""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest
from aiohttp import web

from inferrun.runner_report import RecordCounts
from tests.integration.runner.pods import Ended, Machine, Pod, until
from tests.integration.runner.s3_server import S3Server, credentials, s3_server
from tests.integration.runner.servers import CountingModel, nothing

pytestmark = pytest.mark.thorough

COUNT = 3000
SHARDS = 3
SMALL = {
    "INFERRUN_CHUNK_BYTES": "1024",
    "INFERRUN_BATCH_ROWS": "40",
    "INFERRUN_CONCURRENCY": "2",
    "INFERRUN_SHARDS": str(SHARDS),
    "INFERRUN_CLAIM_SECONDS": "3",
}
PATIENT = {**SMALL, "INFERRUN_CLAIM_SECONDS": "60"}
RUN = "results/inf-sums-5be07ada"


@dataclass
class World:
    """A run with input and output in the same kind of store; `folder` is where its output is."""

    machine: Machine
    folder: Path

    def names(self, folder: str) -> list[str]:
        """The names of the files in a folder of the output."""
        found = self.folder / folder
        return sorted(path.name for path in found.iterdir()) if found.exists() else []

    @property
    def commits(self) -> list[str]:
        """The committed chunks."""
        return self.names("commits")

    def manifest(self) -> dict[str, object]:
        """The manifest."""
        found: dict[str, object] = json.loads((self.folder / "manifest.json").read_text())
        return found

    def results(self) -> list[object]:
        """All results, in the order of the manifest."""
        parts = json.loads((self.folder / "manifest.json").read_text())["parts"]
        return [
            orjson.loads(line)
            for part in parts
            for line in (self.folder / part["file"]).read_bytes().splitlines()
        ]

    def assert_whole(self) -> None:
        """Each record has one result, in order, nothing else is left, and the manifest has the
        counts of all Pods."""
        assert self.results() == [
            {"index": index, "prediction": index + 0.5} for index in range(COUNT)
        ]
        assert self.manifest()["records"] == {"total": COUNT, "completed": COUNT, "failed": 0}
        assert len(self.names("predictions")) == len(
            json.loads((self.folder / "manifest.json").read_text())["parts"]
        )
        assert set(self.names(".")) <= {
            "run.json",
            "predictions",
            "manifest.json",
            "commits",
            "claims",
            "members",
            "probes",
        }
        assert not any(map(self.names, ("claims", "members", "probes")))


@pytest.fixture(params=["file", "s3"])
async def world(
    request: pytest.FixtureRequest, machine: Machine, tmp_path: Path
) -> AsyncIterator[World]:
    """A run of 3,000 rows in about 40 chunks."""
    rows = "".join(f"[{index}, 0.5]\n" for index in range(COUNT))
    if request.param == "file":
        (machine.input / "rows.jsonl").write_text(rows)
        machine.contract["input"] = {"file": {"claimName": "given", "path": "rows.jsonl"}}
        machine.contract["output"] = {"file": {"claimName": "made", "path": "results"}}
        yield World(machine, machine.output / RUN)
        return
    async with s3_server(tmp_path / "s3") as s3:
        yield _in_bucket(machine, s3, rows)


def _in_bucket(machine: Machine, s3: S3Server, rows: str) -> World:
    for side in ("input", "output"):
        credentials(machine.folder / "endpoints" / side)
    machine.contract["input"] = {"s3": s3.spec("rows.jsonl")}
    machine.contract["output"] = {"s3": s3.spec("results")}
    (s3.bucket / "rows.jsonl").write_text(rows)
    left = s3.bucket / RUN / "probes" / "of-a-pod-that-was-killed"
    left.parent.mkdir(parents=True)
    left.write_text("")
    return World(machine, s3.bucket / RUN)


async def start(
    world: World, environment: Mapping[str, str], shards: Sequence[int] = range(SHARDS)
) -> list[Pod]:
    """Start one Pod per shard."""
    return [
        await world.machine.start(environment={**environment, "JOB_COMPLETION_INDEX": str(n)})
        for n in shards
    ]


async def end(pods: Sequence[Pod]) -> list[Ended]:
    """Wait for all of them."""
    return list(await asyncio.gather(*(pod.end() for pod in pods)))


def hold_requests(world: World, model: CountingModel, *, commits: int) -> asyncio.Event:
    """Let the model answer no request once so many chunks are committed, until the returned event
    is set."""
    released = asyncio.Event()

    async def hold(_: web.Request) -> web.StreamResponse | None:
        if len(world.commits) >= commits:
            await released.wait()
        return None

    model.before = hold
    return released


def rejecting(*, every: int) -> Callable[[web.Request], Awaitable[web.StreamResponse | None]]:
    """What a model does that rejects requests with one of these records."""

    async def fail(request: web.Request) -> web.StreamResponse | None:
        rows = orjson.loads(await request.read())["inputs"][0]["data"]
        return (
            web.Response(status=400)
            if any(rows[at] % every == 0 for at in range(0, len(rows), 2))
            else None
        )

    return fail


def expect_success(ended: Iterable[Ended]) -> None:
    assert {one.code for one in ended} == {0}, [one.stderr for one in ended]


async def test_several_pods_divide_a_run_and_all_report_it(
    world: World, model: CountingModel
) -> None:
    ended = await end(await start(world, PATIENT))
    expect_success(ended)
    world.assert_whole()
    whole = RecordCounts(total=COUNT, completed=COUNT, failed=0)
    assert [one.result.records for one in ended] == [whole] * SHARDS
    assert len({one.result.output.sha256 for one in ended}) == 1
    assert set(model.rows.values()) == {1}


async def test_all_pods_take_part(world: World, model: CountingModel) -> None:
    everybody = asyncio.Event()

    async def wait_for_everybody(_: web.Request) -> web.StreamResponse | None:
        if model.in_flight >= 2 * SHARDS:  # each Pod has two requests at a time
            everybody.set()
        await everybody.wait()
        return None

    model.before = wait_for_everybody
    ended = await end(await start(world, PATIENT))
    expect_success(ended)
    world.assert_whole()


async def test_a_killed_pod_costs_only_its_uncommitted_chunks(
    world: World, model: CountingModel
) -> None:
    killed = hold_requests(world, model, commits=6)
    pods = await start(world, SMALL)
    await until(lambda: len(world.commits) >= 6 and model.in_flight >= 2 * SHARDS, seconds=60)
    pods[1].signal(signal.SIGKILL)
    assert (await pods[1].end()).code == -signal.SIGKILL
    killed.set()
    ended = await end([pods[0], pods[2]])
    expect_success(ended)
    world.assert_whole()


async def test_a_killed_pod_is_replaced_and_its_chunks_are_predicted_at_once(
    world: World, model: CountingModel
) -> None:
    killed = hold_requests(world, model, commits=6)
    pods = await start(world, PATIENT)
    await until(lambda: len(world.commits) >= 6 and model.in_flight >= 2 * SHARDS, seconds=60)
    pods[2].signal(signal.SIGKILL)
    await pods[2].end()
    (replacement,) = await start(world, PATIENT, [2])
    killed.set()
    ended = await end([pods[0], pods[1], replacement])
    expect_success(ended)
    world.assert_whole()


async def test_a_run_whose_pods_are_all_killed_continues_with_the_next_launch(
    world: World, model: CountingModel
) -> None:
    killed = hold_requests(world, model, commits=9)
    pods = await start(world, PATIENT)
    await until(lambda: len(world.commits) >= 9 and model.in_flight >= SHARDS, seconds=60)
    for pod in pods:
        pod.signal(signal.SIGKILL)
    await end(pods)
    killed.set()
    await until(lambda: model.in_flight == 0)
    assert not (world.folder / "manifest.json").exists()
    model.before, model.rows = nothing, Counter()
    ended = await end(
        await start(world, {**PATIENT, "INFERRUN_LAUNCH": "2", "INFERRUN_ATTEMPT": "2"})
    )
    expect_success(ended)
    world.assert_whole()
    assert set(model.rows.values()) == {1}
    assert len(model.rows) < COUNT


async def test_sigterm_frees_the_chunks_of_a_pod(world: World, model: CountingModel) -> None:
    stopped = hold_requests(world, model, commits=6)
    pods = await start(world, PATIENT)
    await until(lambda: len(world.commits) >= 6 and model.in_flight >= 2 * SHARDS, seconds=60)
    pods[0].signal(signal.SIGTERM)
    assert (await pods[0].end()).code == 143
    stopped.set()
    ended = await end(pods[1:])
    expect_success(ended)
    world.assert_whole()


async def test_errors_of_all_pods_are_in_the_manifest(world: World, model: CountingModel) -> None:
    model.before = rejecting(every=500)
    world.machine.contract["errorThreshold"] = str(COUNT // 500)
    next(iter(world.machine.contract["output"].values()))["layout"] = {"partSize": 1}
    ended = await end(await start(world, PATIENT))
    expect_success(ended)
    failed = COUNT // 500
    assert world.manifest()["records"] == {
        "total": COUNT,
        "completed": COUNT - failed,
        "failed": failed,
    }
    assert len(world.names("errors")) == failed
    assert ended[0].result.records == RecordCounts(
        total=COUNT, completed=COUNT - failed, failed=failed
    )


async def test_stores_and_fields_that_cannot_be_shared_are_named(
    krateo: Machine, machine: Machine
) -> None:
    ended = await krateo.failure(2, INFERRUN_SHARDS="2")
    assert (
        ended.message
        == "shards: an output of the label 'krateo' cannot be written by several Pods; remove shards"
    )
    machine.contract["input"] = {"file": {"claimName": "given", "path": "rows.jsonl"}}
    machine.contract["output"] = {"file": {"claimName": "made", "path": "results"}}
    (machine.input / "rows.jsonl").write_text("[1, 2]\n")
    machine.contract["canaryRecords"] = 5
    ended = await machine.failure(2, INFERRUN_SHARDS="2")
    assert ended.message == "shards: 2 Pods cannot wait for canaryRecords: 5; remove one of them"
