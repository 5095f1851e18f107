"""The files of chunks are joined when the run is committed, whatever happens to the Pods that do
it."""

import asyncio
import io
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from fnmatch import fnmatch
from itertools import count, islice
from pathlib import Path
from typing import Any

import orjson
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from pydantic import ValidationError

from inferrun.formats.arrow.format import ARROW
from inferrun.formats.csv.format import CSV
from inferrun.formats.dataset import ListedFile
from inferrun.formats.jsonl.format import JSONL
from inferrun.formats.openai import OPENAI
from inferrun.formats.parquet.format import PARQUET
from inferrun.formats.result_schema import result_schema
from inferrun.manifest import ManifestPart
from inferrun.plugins import (
    Chunk,
    CommittedRun,
    ContractError,
    Counts,
    InputPlan,
    OutputError,
    PlannedObject,
    RecordError,
    RecordFormat,
    StoredResult,
)
from inferrun.stores import FileStorage
from inferrun.stores.dataset import OutputLayout
from inferrun_runner.stores.file.claim import ClaimFiles
from inferrun_runner.stores.run_folder import spool
from inferrun_runner.stores.run_folder.layout import part_ranges
from inferrun_runner.stores.run_folder.results import OrderedRows
from inferrun_runner.stores.run_folder.store import RunFolder
from tests.unit.runner.batches import batch, results
from tests.unit.runner.stores.contexts import context_of

RECORDS = 5
CHUNKS = tuple(
    Chunk(index, index // 2, index, index + 1, RECORDS * index, RECORDS) for index in range(5)
)
FOLDERS = ("dt=2026-11-23/hour=%3A", "dt=2026-11-24/hour=__HIVE_DEFAULT_PARTITION__")
OBJECTS = tuple(PlannedObject(f"{FOLDERS[unit > 0]}/{unit}.jsonl", 1, "") for unit in range(3))
SCHEMA = result_schema(
    key=None, copied=(), predicted=pyarrow.float64(), types={}, is_flat=False, field="output.file"
).serialized()
PART = ManifestPart(file="predictions/part", bytes=0, sha256="0" * 64, first=0, records=0, failed=0)
FORMATS: dict[str, Any] = {  # Any: a format that is readable, too
    "jsonl": JSONL,
    "csv": CSV,
    "openai": OPENAI,
    "parquet": PARQUET,
    "arrow": ARROW,
}


class Killed(BaseException):
    """The process ended."""


class MortalFiles(ClaimFiles):
    """Files that run something once, before or after an operation of which the name is known, and
    count operations."""

    def __init__(self, root: Path, spec: FileStorage, act: Callable[[str, str], None]) -> None:
        super().__init__(root, spec)
        self._act = act

    def create(self, name: str, content: bytes) -> bool:
        self._act("create", name)
        return super().create(name, content)

    def put(self, name: str, content: bytes | Path) -> None:
        self._act("put", name)
        super().put(name, content)

    def list_below(self, folder: str) -> list[ListedFile]:
        self._act("list", folder)
        return super().list_below(folder)

    def pieces(self, name: str, size: int) -> Iterator[bytes]:
        self._act("pieces", name)
        return super().pieces(name, size)

    def delete(self, names: Sequence[str]) -> None:
        """Delete files one by one."""
        for name in names:
            self._act("delete", name)
            super().delete([name])


def nothing(operation: str, name: str) -> None:
    """Do nothing before an operation."""


async def predict(
    folder: Path,
    *,
    form: RecordFormat = JSONL,
    layout: dict[str, Any] | None = None,  # Any: JSON
    pod: str = "pod",
    act: Callable[[str, str], None] = nothing,
    finishes: bool = True,
    add: float = 0.0,
) -> CommittedRun | None:
    """Execute a run of five chunks, in each of which the record 3 fails, or what is left of it."""
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    spec = FileStorage(claim_name="claim", path="out", **({"layout": layout} if layout else {}))
    context = context_of(folder, record_format=form, pod=pod, spool=folder.parent / f"spool-{pod}")
    files = MortalFiles(folder, spec, act)
    with closing(RunFolder(files, form, context, spec, label="output.file")) as store:
        checkpoint = await store.open()
        if checkpoint.committed_run:
            return checkpoint.committed_run
        await store.begin(InputPlan("f", CHUNKS, objects=OBJECTS, result_schema=SCHEMA))
        for chunk in CHUNKS:
            if chunk.index not in checkpoint.committed:
                writer = store.writer(chunk)
                values = [chunk.first + at + add for at in range(RECORDS)]
                given = batch(([one] for one in values), first=chunk.first)
                await writer.write(
                    given, results([*values[:3], RecordError("rejected", "no"), values[4]])
                )
                await writer.commit()
        if not finishes:
            return None
        total = RECORDS * len(CHUNKS)
        return await store.finish(
            Counts(total=total, completed=total - len(CHUNKS), failed=len(CHUNKS))
        )


def listed(folder: Path) -> list[dict[str, Any]]:  # Any: JSON
    """The parts in the manifest, which are all files there are."""
    run = folder / "out" / "inf-a"
    parts = orjson.loads((run / "manifest.json").read_bytes())["parts"]
    files = {one["file"] for part in parts for one in (part, part.get("errors")) if one}
    assert {
        str(path.relative_to(run)) for path in run.glob("[pe]*/**/*") if path.is_file()
    } == files
    assert sorted(path.name for path in run.iterdir()) == [
        "commits",
        "errors",
        "manifest.json",
        "predictions",
        "run.json",
    ]
    return list(parts)


def rows(folder: Path, form: RecordFormat = JSONL) -> list[StoredResult]:
    """The results in the parts, in the order of the manifest."""
    run, found = folder / "out" / "inf-a", list[StoredResult]()
    assert form.abilities.readable is not None
    for part in listed(folder):
        errors = io.BytesIO((run / part["errors"]["file"]).read_bytes())
        stored = list(
            form.abilities.readable.read(io.BytesIO((run / part["file"]).read_bytes()), errors)
        )
        assert (stored[0].index, len(stored), part["failed"]) == (
            part["first"],
            part["records"],
            part["records"] // 5,
        )
        found += stored
    return found


def assert_whole(folder: Path, form: RecordFormat = JSONL, *, add: float = 0.0) -> None:
    found = rows(folder, form)
    assert [one.index for one in found] == list(range(RECORDS * len(CHUNKS)))
    assert [one.index for one in found if one.error] == [3, 8, 13, 18, 23]
    predicted = {one.index: float(one.prediction) for one in found if not one.error}
    assert predicted == {index: index + add for index in range(25) if index % 5 != 3}


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("layout", "files"), [({}, 1), ({"partSize": 1}, 5), ({"partSize": 1, "single": True}, 1)]
)
async def test_the_layout_says_how_many_files_there_are(
    tmp_path: Path, form: str, layout: dict[str, Any], files: int
) -> None:
    await predict(tmp_path, form=FORMATS[form], layout=layout)
    assert len(listed(tmp_path)) == files
    assert_whole(tmp_path, FORMATS[form])


@pytest.mark.parametrize("form", FORMATS)
async def test_files_are_in_the_folders_of_the_input(tmp_path: Path, form: str) -> None:
    await predict(tmp_path, form=FORMATS[form], layout={"partitions": "Input"})
    parts = listed(tmp_path)
    assert [Path(part["file"]).parent.as_posix() for part in parts] == [
        f"predictions/{one}" for one in FOLDERS
    ]
    assert [Path(part["errors"]["file"]).parent.as_posix() for part in parts] == [
        f"errors/{one}" for one in FOLDERS
    ]
    assert_whole(tmp_path, FORMATS[form])


@pytest.mark.parametrize(
    "name", ["../a", "dt=1/../a", ".hidden/a", "dt=1/.a", "dt=1//a", "dt=1/", "a" * 5000]
)
def test_a_document_names_no_file_elsewhere(name: str) -> None:
    with pytest.raises(ValidationError):
        ManifestPart(**PART.model_dump() | {"file": f"predictions/{name}"})


def dying(lifetime: int) -> Callable[[str, str], None]:
    """End the process after that many operations."""
    left = iter(range(lifetime))

    def die(operation: str, name: str) -> None:
        if next(left, None) is None:
            raise Killed(operation, name)

    return die


async def test_pods_that_are_killed_one_after_the_other_make_progress(tmp_path: Path) -> None:
    layout, claim = {"partSize": 700}, tmp_path / "claim"
    await predict(claim, layout=layout, finishes=False)
    lifetime = 0
    while True:
        try:
            await predict(claim, layout=layout, pod=f"pod-{lifetime}", act=dying(lifetime))
            break
        except Killed:
            lifetime += 1
    assert lifetime > 5
    assert len(listed(claim)) == 2
    assert_whole(claim)


@pytest.mark.parametrize("layout", [{"partSize": 700}, {"partitions": "Input"}])
async def test_a_pod_that_is_killed_at_any_time_is_followed_by_one_that_completes_the_run(
    tmp_path: Path, layout: dict[str, Any]
) -> None:
    for lifetime in count():
        claim = tmp_path / f"claim-{lifetime}"
        await predict(claim, layout=layout, finishes=False)
        try:
            await predict(claim, layout=layout, pod="first", act=dying(lifetime))
            break
        except Killed:
            await predict(claim, layout=layout, pod="second")
            assert_whole(claim)
    assert lifetime > 20


@pytest.mark.parametrize(
    "operation",
    [
        "list */predictions/",
        "pieces */part-000000*",
        "put */part-*-000004-late.jsonl",
        "create */merges/*",
        "create */manifest.json",
    ],
)
@pytest.mark.parametrize("layout", [{}, {"partitions": "Input"}])
@pytest.mark.parametrize("is_committed", [True, False])
async def test_two_pods_that_join_the_same_chunks_agree(
    tmp_path: Path, operation: str, layout: dict[str, Any], *, is_committed: bool
) -> None:
    """The first one pauses before an operation, in which the other one joins the files and may
    commit the run."""
    claim, paused = tmp_path / "claim", list[str]()

    def other(kind: str, name: str) -> None:
        if kind == "create" and name.endswith("manifest.json") and not is_committed:
            raise Killed

    def pause(kind: str, name: str) -> None:
        if not paused and fnmatch(f"{kind} {name}", operation):
            paused.append(name)
            with suppress(Killed):
                asyncio.run(predict(claim, layout=layout, pod="other", act=other))

    await predict(claim, layout=layout, finishes=False)
    assert await predict(claim, layout=layout, pod="late", act=pause) is not None
    assert paused
    assert_whole(claim)


@pytest.mark.parametrize(
    ("form", "allowed"), [(PARQUET, "snappy"), (PARQUET, "none"), (ARROW, "zstd"), (ARROW, "none")]
)
async def test_tables_have_the_compression_of_the_layout(
    tmp_path: Path, form: Any, allowed: str
) -> None:  # Any: as above
    await predict(tmp_path, form=form, layout={"compression": allowed})
    assert_whole(tmp_path, form)
    content = (tmp_path / "out" / "inf-a" / listed(tmp_path)[0]["file"]).read_bytes()
    if form is PARQUET:
        used = parquet.ParquetFile(io.BytesIO(content)).metadata.row_group(0).column(0).compression
        assert used == {"none": "UNCOMPRESSED"}.get(allowed, allowed.upper())
    else:
        assert (b"\x28\xb5\x2f\xfd" in content) == (allowed == "zstd")


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (JSONL, "the files of this format are not compressed"),
        (ARROW, "must be none, zstd or lz4, not 'snappy'"),
    ],
)
async def test_a_compression_that_the_format_does_not_have_is_refused(
    tmp_path: Path, form: Any, message: str
) -> None:  # Any: as above
    with pytest.raises(ContractError, match=rf"^output.file.layout.compression: {message}"):
        await predict(tmp_path, form=form, layout={"compression": "snappy"})


async def test_a_stopped_process_abandons_joining(tmp_path: Path) -> None:
    started, stopped = threading.Event(), threading.Event()

    def pause(kind: str, name: str) -> None:
        if kind == "pieces":
            started.set()
            assert stopped.wait(30)

    commit = asyncio.create_task(predict(tmp_path / "claim", act=pause))
    await asyncio.to_thread(started.wait, 30)
    commit.cancel()
    await asyncio.sleep(0)  # the cancellation arrives
    asyncio.get_running_loop().call_later(0.05, stopped.set)
    with pytest.raises(asyncio.CancelledError):
        await commit
    assert not (tmp_path / "claim" / "out" / "inf-a" / "manifest.json").exists()
    await predict(tmp_path / "claim", pod="next")
    assert_whole(tmp_path / "claim")


async def test_only_results_of_other_pods_are_read_to_be_joined(tmp_path: Path) -> None:
    read = list[str]()

    def note(kind: str, name: str) -> None:
        if kind == "pieces" and "/predictions/" in name:
            read.append(name)

    await predict(tmp_path / "own", act=note)
    assert read == []
    assert_whole(tmp_path / "own")
    await predict(tmp_path / "other", finishes=False)
    await predict(tmp_path / "other", pod="next", act=note)
    assert len(read) == len(CHUNKS)
    assert_whole(tmp_path / "other")


async def test_without_room_results_are_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "KEPT_BYTES", 1)
    read = list[str]()
    await predict(tmp_path, act=lambda kind, name: read.append(name) if kind == "pieces" else None)
    assert sum("/predictions/" in name for name in read) == len(CHUNKS)
    assert_whole(tmp_path)


async def test_a_chunk_that_has_changed_is_not_joined(tmp_path: Path) -> None:
    await predict(tmp_path, finishes=False)
    part = next((tmp_path / "out" / "inf-a" / "predictions").iterdir())
    part.write_bytes(part.read_bytes().replace(b"1", b"2"))
    with pytest.raises(OutputError, match="is missing or has changed since it was committed"):
        await predict(tmp_path, pod="next")


@given(sizes=st.lists(st.integers(0, 50)), limit=st.integers(1, 100), single=st.booleans())
def test_ranges_cover_all_chunks_once_and_are_as_large_as_allowed(
    sizes: list[int], limit: int, *, single: bool
) -> None:
    parts = [PART.model_copy(update={"bytes": size}) for size in sizes]
    found = list(
        part_ranges(parts, OutputLayout.model_validate({"partSize": limit, "single": single}))
    )
    assert [chunk for one in found for chunk in one] == list(range(len(sizes)))
    assert all(
        len(one) == 1 or single or sum(sizes[chunk] for chunk in one) <= limit for one in found
    )
    assert all(sum(sizes[one.start : one.stop + 1]) > limit for one in found[:-1])
    assert len(found) <= 1 or not single


@given(
    st.sets(st.integers(0, 40)),
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))),
)
def test_rows_are_read_by_ranges_in_any_order(
    indexes: set[int], ranges: list[tuple[int, int, int]]
) -> None:
    stored = [StoredResult(index) for index in sorted(indexes)]
    opened = OrderedRows(lambda _: (row for row in stored))
    for first, stop, most in ranges:
        found = list(islice(opened.between(PART, first, stop), most))
        assert found == [row for row in stored if first <= row.index < stop][:most]


def test_rows_are_read_once_by_ranges_in_order() -> None:
    reads = list[int]()

    def read(_: ManifestPart) -> Generator[StoredResult, None, None]:
        reads.append(1)
        yield from map(StoredResult, (0, 1, 4, 5, 9))

    opened = OrderedRows(read)
    assert [[row.index for row in opened.between(PART, at, at + 2)] for at in range(0, 10, 2)] == [
        [0, 1],
        [],
        [4, 5],
        [],
        [9],
    ]
    assert len(reads) == 1
