"""The output folder of a run: what is read and when, and which volumes are accepted."""

import os
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from inferrun.plugins import (
    Checkpoint,
    Chunk,
    ChunkCommit,
    Contract,
    Counts,
    InputPlan,
    Limits,
    OutputError,
    RecordError,
    RecordFormat,
    ResultCounts,
    StoreContext,
)
from runner.file.output import open_output
from runner.jsonl.format import JSONL
from tests.unit.runner.batches import batch, results

CHUNKS = tuple(Chunk(index, unit=0, start=index, end=index + 1, first=index, records=1) for index in range(4))
PLAN = InputPlan(fingerprint="f", chunks=CHUNKS)
SPEC = {"claimName": "claim", "path": "out"}


def context(folder: Path, record_format: RecordFormat, *, pod: str) -> StoreContext:
    return StoreContext(
        contract=Contract(job_id="uid", job_name="inf-a"),
        limits=Limits(),
        pod_uid=pod,
        input_dir=folder,
        output_dir=folder,
        endpoints_dir=folder,
        spool_dir=folder,
        format_named=lambda _name, _field: record_format,
    )


async def predict(folder: Path, *, pod: str, chunks: Sequence[int], value: object = 1.5) -> Checkpoint:
    """Commit chunks of one record each, and the run after the last one."""
    async with open_output(SPEC, context(folder, JSONL, pod=pod)) as store:
        checkpoint = await store.open()
        await store.begin(PLAN)
        for chunk in (CHUNKS[index] for index in chunks):
            writer = store.writer(chunk)
            await writer.write(batch([[1.0]], first=chunk.first), results([value]))
            await writer.commit()
        if chunks[-1] == PLAN.total - 1:
            await store.finish(Counts(total=4, completed=4))
    return checkpoint


def run_folder(folder: Path) -> Path:
    return folder / "out" / "inf-a"


async def test_chunks_are_committed_as_a_set(tmp_path: Path) -> None:
    await predict(tmp_path, pod="pod-1", chunks=[2, 0])
    async with open_output(SPEC, context(tmp_path, JSONL, pod="pod-2")) as store:
        checkpoint = await store.open()
    assert checkpoint.plan == PLAN
    assert sorted(checkpoint.committed) == [0, 2]


async def test_a_commit_says_what_is_stored_and_who_won(tmp_path: Path) -> None:
    async def commit(pod: str, value: object) -> ChunkCommit:
        async with open_output(SPEC, context(tmp_path, JSONL, pod=pod)) as store:
            await store.open()
            await store.begin(PLAN)
            writer = store.writer(CHUNKS[1])
            await writer.write(batch([[1.0]], first=1), results([value]))
            return await writer.commit()

    first = await commit("pod-1", RecordError("rejected", "no"))
    second = await commit("pod-2", 7.25)
    assert (first.won, second.won) == (True, False)
    assert first.counts == second.counts == ResultCounts(completed=0, failed=1)
    assert (first.bytes, first.sha256) == (second.bytes, second.sha256)
    stored = (run_folder(tmp_path) / "predictions" / "part-000001-000000000001.jsonl").read_bytes()
    assert orjson.loads(stored)["error"]["code"] == "rejected"
    assert len(stored) == first.bytes
    assert (run_folder(tmp_path) / "errors" / "part-000001-000000000001.jsonl").read_bytes() == stored


async def test_a_chunk_whose_pod_died_after_its_commit_gets_its_final_name(tmp_path: Path) -> None:
    await predict(tmp_path, pod="pod-1", chunks=[0])
    folder = run_folder(tmp_path)
    final = folder / "predictions" / "part-000000-000000000000.jsonl"
    draft = folder / ".attempts" / "pod-1" / "000000.jsonl"
    draft.parent.mkdir(parents=True)
    final.rename(draft)
    await predict(tmp_path, pod="pod-2", chunks=[1, 2, 3])
    assert orjson.loads(final.read_bytes()) == {"index": 0, "prediction": 1.5}
    assert (folder / "manifest.json").exists()
    assert not (folder / ".attempts").exists()
    assert not (folder / ".commits").exists()


async def test_a_run_with_a_changed_part_is_not_committed(tmp_path: Path) -> None:
    await predict(tmp_path, pod="pod-1", chunks=range(3))
    (run_folder(tmp_path) / "predictions" / "part-000000-000000000000.jsonl").write_bytes(b"")
    with pytest.raises(OutputError, match="is missing or has changed, so the run was not committed"):
        await predict(tmp_path, pod="pod-2", chunks=[3])


async def test_a_volume_that_cannot_publish_exclusively_is_rejected_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", os.replace)
    with pytest.raises(OutputError, match="the volume of claim 'claim' supports neither hard links nor") as rejected:
        await predict(tmp_path, pod="pod-1", chunks=[0])
    assert not rejected.value.is_retryable
