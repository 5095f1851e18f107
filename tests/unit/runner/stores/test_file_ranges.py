"""Dividing files into byte ranges."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferrun.formats.csv.format import CSV
from inferrun.formats.dataset import Dataset
from inferrun.formats.jsonl.format import JSONL
from inferrun.plugins import InputError, Limits, PlannedObject, RecordFormat
from inferrun.plugins.limits import KIB, MIB
from inferrun.stores.dataset import DatasetStorage
from inferrun_runner.stores.dataset import OpenedDataset
from inferrun_runner.stores.file.local_files import LocalFile
from inferrun_runner.stores.file_ranges import FileRanges, chunk_size
from tests.unit.runner.batches import decoded


@pytest.mark.parametrize(
    ("total", "configured", "size"),
    [
        (0, 0, 16 * KIB),
        (400 * KIB, 0, 16 * KIB),
        (128 * MIB, 0, MIB),
        (10_000 * MIB, 0, 4 * MIB),
        (50, 7, 7),
    ],
)
def test_the_chunk_size_is_a_fraction_of_the_input_within_limits(
    total: int, configured: int, size: int
) -> None:
    assert chunk_size(total, configured=configured) == size


def ranges(
    folder: Path,
    *names: str,
    limits: Limits | None = None,
    record_format: RecordFormat = JSONL,
    spec: DatasetStorage | None = None,
) -> FileRanges:
    def find() -> Dataset:
        return Dataset(
            tuple(PlannedObject(name, (folder / name).stat().st_size, "") for name in names)
        )

    found = find()
    dataset = OpenedDataset(
        found,
        {one.name: LocalFile(folder=folder, name=one.name, size=one.size) for one in found.objects},
        repr,
        find,
        spec or DatasetStorage(allow_empty=True),
        "input.file",
    )
    return FileRanges(dataset, record_format=record_format, limits=limits or Limits())


def rows_of(source: FileRanges) -> list[object]:
    return [
        row
        for chunk in source.plan().chunks
        for block in source.read(chunk)
        for row in decoded(block)
    ]


def test_small_files_are_grouped_into_chunks(tmp_path: Path) -> None:
    names = [f"{number:03}.jsonl" for number in range(100)]
    for number, name in enumerate(names):
        (tmp_path / name).write_text(f"[{number}]\n[{number}.5]\n")
    source = ranges(tmp_path, *names, limits=Limits(chunk_bytes=100))
    plan = source.plan()
    assert plan.total == 200
    assert len(plan.chunks) < 13
    assert [chunk.first for chunk in plan.chunks[1:]] == [chunk.stop for chunk in plan.chunks[:-1]]
    assert rows_of(source) == [[number + half] for number in range(100) for half in (0, 0.5)]


@given(
    st.lists(st.integers(min_value=0, max_value=12), max_size=12),
    st.integers(min_value=1, max_value=60),
)
def test_every_record_is_in_one_chunk_whatever_the_sizes(
    counts: list[int], chunk_bytes: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, expected = Path(folder), []
        for unit, count in enumerate(counts):
            rows = [[unit, at] for at in range(count)]
            (path / f"{unit:02}.jsonl").write_text("".join(f"{row}\n" for row in rows))
            expected += rows
        source = ranges(
            path,
            *sorted(file.name for file in path.iterdir()),
            limits=Limits(chunk_bytes=chunk_bytes),
        )
        assert rows_of(source) == expected
        first = source.first_chunk()
        assert (
            first is None
            if not expected
            else first is not None and expected[0] in decoded(next(source.read(first)))
        )


def test_records_without_columns_may_have_different_widths(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("[1]\n")
    (tmp_path / "b.jsonl").write_text("[2, 3]\n")
    source = ranges(tmp_path, "a.jsonl", "b.jsonl")
    assert rows_of(source) == [[1], [2, 3]]


def test_a_file_that_another_pod_begins_with_must_have_the_form_of_the_first(
    tmp_path: Path,
) -> None:
    for name, columns in (("a.csv", "a,b"), ("b.csv", "b,a"), ("c.csv", "a,b")):
        (tmp_path / name).write_text(f"{columns}\n1,2\n")
    limits = Limits(chunk_bytes=4)
    _, second, third = (
        ranges(tmp_path, "a.csv", "b.csv", "c.csv", limits=limits, record_format=CSV).plan().chunks
    )
    source = ranges(tmp_path, "a.csv", "b.csv", "c.csv", limits=limits, record_format=CSV)
    assert [decoded(block) for block in source.read(third)] == [[[1, 2]]]
    with pytest.raises(
        InputError, match=r"b\.csv has other columns, or columns of other types or in another order"
    ):
        list(source.read(second))
