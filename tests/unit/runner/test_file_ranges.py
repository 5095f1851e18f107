"""The commit primitive and the cutting of files."""

from pathlib import Path

import pytest

from runner.errors import InputError
from runner.file.no_replace import publish
from runner.jsonl import JSONL
from runner.ranges import FileRanges, chunk_size, fingerprint_of
from runner.settings import KIB, MIB, Settings
from runner.values import InputFile


def test_a_published_file_has_its_name_and_its_draft_is_gone(tmp_path: Path) -> None:
    draft, final = tmp_path / "draft", tmp_path / "final"
    draft.write_text("first")
    assert publish(draft, final)
    assert final.read_text() == "first"
    assert not draft.exists()


def test_who_comes_second_changes_nothing(tmp_path: Path) -> None:
    draft, final = tmp_path / "draft", tmp_path / "final"
    final.write_text("first")
    draft.write_text("second")
    assert not publish(draft, final)
    assert final.read_text() == "first"
    assert not draft.exists()


def test_a_draft_that_is_gone_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        publish(tmp_path / "draft", tmp_path / "final")


@pytest.mark.parametrize(
    ("total", "wanted", "size"),
    [(0, 0, 16 * KIB), (400 * KIB, 0, 16 * KIB), (128 * MIB, 0, MIB), (10_000 * MIB, 0, 4 * MIB), (50, 7, 7)],
)
def test_a_chunk_is_a_part_of_the_input_within_limits(total: int, wanted: int, size: int) -> None:
    assert chunk_size(total, wanted=wanted) == size


def ranges(folder: Path, *names: str, settings: Settings | None = None) -> FileRanges:
    def look() -> list[InputFile]:
        files = [folder / name for name in names]
        return [InputFile(name=file.name, size=file.stat().st_size) for file in files]

    files = look()
    return FileRanges(
        folder,
        files,
        fingerprint=fingerprint_of(files),
        record_format=JSONL,
        settings=settings or Settings(),
        look_again=lambda: fingerprint_of(look()),
    )


def test_files_are_cut_one_after_the_other_without_gaps(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("[1]\n[2]\n[3]\n")
    (tmp_path / "b.jsonl").write_text("")
    (tmp_path / "c.jsonl").write_text("[4]\n[5]")
    source = ranges(tmp_path, "a.jsonl", "b.jsonl", "c.jsonl", settings=Settings(chunk_bytes=5))
    cut = source.survey()
    chunks = source.chunks(cut)
    assert cut.total == 5
    assert [(chunk.index, chunk.unit, chunk.start, chunk.end) for chunk in chunks] == [
        (0, 0, 0, 5), (1, 0, 5, 10), (2, 0, 10, 12), (3, 2, 0, 5), (4, 2, 5, 7),
    ]  # fmt: skip
    assert [row for chunk in chunks for batch in source.read(chunk, first=0) for row in batch.rows] == [
        [1], [2], [3], [4], [5],
    ]  # fmt: skip


def test_records_of_another_width_are_refused_across_chunks(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("[1]\n[2, 3]\n")
    source = ranges(tmp_path, "a.jsonl", settings=Settings(chunk_bytes=4))
    first, second, *_ = source.chunks(source.survey())
    list(source.read(first, first=0))
    with pytest.raises(InputError, match=r"a\.jsonl: record 1 has 2 numbers, earlier ones have 1"):
        list(source.read(second, first=1))


def test_an_input_that_changes_under_way_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("[1]\n")
    source = ranges(tmp_path, "a.jsonl")
    source.verify()
    (tmp_path / "a.jsonl").write_text("[1]\n[2]\n")
    with pytest.raises(InputError, match="changed while it was read"):
        source.verify()
