"""The output folder of a run: what is read and when, and which volumes are accepted."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import pytest

from inferrun.plugins import (
    Batch,
    Checkpoint,
    Chunk,
    Contract,
    Counts,
    InputPlan,
    Limits,
    OutputError,
    Prediction,
    RecordFormat,
    ResultCounts,
    StoreContext,
)
from runner.file.output import open_output
from runner.jsonl.format import Jsonl

PLAN = InputPlan(fingerprint="f", chunk_size=1, total=4)
SPEC = {"claimName": "claim", "path": "out"}


class ObservedFormat(Jsonl):
    """JSON lines, counting how many result files are read."""

    def __init__(self) -> None:
        self.files_read = 0

    def count_results(self, results: BinaryIO) -> ResultCounts:
        self.files_read += 1
        return super().count_results(results)


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


async def predict(folder: Path, record_format: RecordFormat, *, pod: str, chunks: Sequence[int]) -> Checkpoint:
    """Commit chunks of one record each, and the run after the last one."""
    prediction: Prediction = 1.5
    async with open_output(SPEC, context(folder, record_format, pod=pod)) as store:
        checkpoint = await store.open()
        await store.begin(PLAN)
        for index in chunks:
            await store.write(Batch(first=index, rows=[[1.0]]), [prediction])
            await store.commit(Chunk(index=index, unit=0, start=index, end=index + 1))
        if chunks[-1] == PLAN.total - 1:
            await store.finish(Counts(total=4, completed=4))
    return checkpoint


async def test_an_attempt_does_not_read_its_own_output(tmp_path: Path) -> None:
    record_format = ObservedFormat()
    await predict(tmp_path, record_format, pod="pod-1", chunks=range(4))
    assert record_format.files_read == 0


async def test_an_attempt_reads_the_output_of_earlier_attempts_once(tmp_path: Path) -> None:
    record_format = ObservedFormat()
    await predict(tmp_path, record_format, pod="pod-1", chunks=range(3))
    checkpoint = await predict(tmp_path, record_format, pod="pod-2", chunks=[3])
    assert checkpoint.committed == ResultCounts(3)
    assert record_format.files_read == 3


async def test_a_volume_that_cannot_publish_exclusively_is_rejected_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "link", os.replace)
    with pytest.raises(OutputError, match="the volume of claim 'claim' supports neither hard links nor") as rejected:
        await predict(tmp_path, Jsonl(), pod="pod-1", chunks=[0])
    assert not rejected.value.is_retryable


@pytest.mark.parametrize("place", ["out", "out/inf-a", "out/inf-a/predictions", "out/inf-a/.attempts"])
async def test_an_output_behind_a_link_out_of_the_claim_is_refused(tmp_path: Path, place: str) -> None:
    claim, outside = tmp_path / "claim", tmp_path / "outside"
    link = claim / place
    link.parent.mkdir(parents=True)
    outside.mkdir()
    link.symlink_to(outside)
    with pytest.raises(OutputError, match="leads out of the claim; replace the link with a folder") as refused:
        await predict(claim, Jsonl(), pod="pod-1", chunks=range(4))
    assert not refused.value.is_retryable
    assert list(outside.iterdir()) == []
