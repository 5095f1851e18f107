"""Dividing files into byte ranges."""

from pathlib import Path

import pytest

from inferrun.plugins import InputError, Limits
from inferrun.plugins.limits import KIB, MIB
from runner.file.local_files import LocalFile, fingerprint_of
from runner.file_ranges import FileRanges, chunk_size
from runner.jsonl.format import JSONL
from tests.unit.runner.batches import decoded


@pytest.mark.parametrize(
    ("total", "configured", "size"),
    [(0, 0, 16 * KIB), (400 * KIB, 0, 16 * KIB), (128 * MIB, 0, MIB), (10_000 * MIB, 0, 4 * MIB), (50, 7, 7)],
)
def test_the_chunk_size_is_a_fraction_of_the_input_within_limits(total: int, configured: int, size: int) -> None:
    assert chunk_size(total, configured=configured) == size


def ranges(folder: Path, *names: str, limits: Limits | None = None) -> FileRanges:
    def find() -> list[LocalFile]:
        files = [folder / name for name in names]
        return [LocalFile(folder=folder, name=file.name, size=file.stat().st_size) for file in files]

    files = find()
    return FileRanges(
        files,
        fingerprint=fingerprint_of(files),
        record_format=JSONL,
        limits=limits or Limits(),
        current_fingerprint=lambda: fingerprint_of(find()),
    )


def test_files_are_divided_one_after_the_other_without_gaps(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("[1]\n[2]\n[3]\n")
    (tmp_path / "b.jsonl").write_text("")
    (tmp_path / "c.jsonl").write_text("[4]\n[5]")
    source = ranges(tmp_path, "a.jsonl", "b.jsonl", "c.jsonl", limits=Limits(chunk_bytes=5))
    plan = source.plan()
    chunks = plan.chunks
    assert plan.total == 5
    assert [(chunk.index, chunk.unit, chunk.start, chunk.end, chunk.first, chunk.records) for chunk in chunks] == [
        (0, 0, 0, 5, 0, 2), (1, 0, 5, 10, 2, 1), (2, 2, 0, 5, 3, 2),
    ]  # fmt: skip
    assert [row for chunk in chunks for block in source.read(chunk) for row in decoded(block)] == [
        [1], [2], [3], [4], [5],
    ]  # fmt: skip


def test_records_of_different_widths_are_rejected_across_chunks(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("[1]\n[2, 3]\n")
    source = ranges(tmp_path, "a.jsonl", limits=Limits(chunk_bytes=4))
    first, second, *_ = source.plan().chunks
    list(source.read(first))
    with pytest.raises(InputError, match=r"a\.jsonl: record 1 has 2 numbers, previous records have 1"):
        list(source.read(second))


def test_a_change_of_the_input_is_detected(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("[1]\n")
    source = ranges(tmp_path, "a.jsonl")
    source.verify()
    (tmp_path / "a.jsonl").write_text("[1]\n[2]\n")
    with pytest.raises(InputError, match="changed while it was being read"):
        source.verify()
