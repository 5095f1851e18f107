"""Joins the results of consecutive chunks in one file on the Pod's disk."""

import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from inferrun.manifest import StoredFile
from inferrun.plugins import Chunk, InputFile, JoinFiles, ResultCounts
from inferrun.runner_report import total_usage
from inferrun_runner.stores.run_folder.documents import ChunkDocument
from inferrun_runner.stores.run_folder.spool import Draft, PartDraft

if TYPE_CHECKING:
    import pyarrow


class MergeStopped(Exception):
    """The commit of the run was abandoned before it was made."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """The copy of a committed file, as formats read it, unless the commit of the run is
    abandoned."""

    name: str
    size: int
    path: Path
    is_stopped: threading.Event

    def open(self) -> BinaryIO:
        """Open the copy."""
        if self.is_stopped.is_set():
            raise MergeStopped
        return self.path.open("rb")


def merged(
    chunks: Sequence[ChunkDocument],
    folder: Path,
    join_files: JoinFiles,
    *,
    schema: "pyarrow.Schema | None",
    copy_of: Callable[[StoredFile], InputFile],
) -> PartDraft:
    """Return finished files in the folder with what is in those of the chunks."""
    first, parts = chunks[0], [one.part for one in chunks]
    results, errors = Draft(folder / "results"), Draft(folder / "errors")
    try:
        join_files(list(map(copy_of, parts)), cast("BinaryIO", results), schema)
        results.write(b"")  # an empty file is a file
        failed = [copy_of(part.errors) for part in parts if part.errors]
        if failed and schema is not None:
            from inferrun.formats.result_schema import ResultSchema  # noqa: PLC0415  only runs with typed results import pyarrow

            join_files(failed, cast("BinaryIO", errors), ResultSchema(schema).failed)
        else:
            for file in failed:
                with file.open() as content:
                    shutil.copyfileobj(content, errors)
    finally:
        results.finish()
        errors.finish()
    counts = sum(
        (ResultCounts(part.records - part.failed, part.failed) for part in parts),
        start=ResultCounts(0),
    )
    usage = total_usage(one.usage for one in chunks)
    chunk = Chunk(first.chunk, unit=0, start=0, end=0, first=first.part.first, records=counts.total)
    return PartDraft(chunk, results, errors if errors.size else None, counts, usage)
