"""The input store `run`: the committed results of an ended run, each of which is a record.

The contract says where they are and has the digest of the manifest, so every attempt reads the
same. A chunk is a part of that run's output, or a range of its rows. The part is spooled to the
Pod's disk, and no record of it is used before its digest was compared with the manifest.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, closing
from importlib import import_module
from typing import Final, TypeAlias

from pydantic import ValidationError

from inferrun.contract import InputRun
from inferrun.formats.stored_records import blocks_of
from inferrun.manifest import ENDED_RUN, Manifest, ManifestPart
from inferrun.plugins import (
    Block,
    Chunk,
    ColumnSelection,
    ContractError,
    InputError,
    InputPlan,
    Source,
    SourceAbilities,
    StorageObject,
    StoreContext,
)
from inferrun.plugins.storage import read_spec
from inferrun.stores import RunStorage
from inferrun_runner.contract_file import only_label
from inferrun_runner.stores.file_ranges import chunk_size
from inferrun_runner.stores.input_spool import spool_folder
from inferrun_runner.stores.run_folder.results import OrderedRows, StoredResults, StoredRow

LABELS: Final = {
    "file": "file.output",
    "s3": "objects.s3",
    "gcs": "objects.gcs",
    "azure": "objects.azure",
    "sql": "sql.results",
}
"""The labels of outputs that can be read, and the modules that do; each imports the client of its
servers."""

OpenResults: TypeAlias = Callable[
    [StorageObject, InputRun, StoreContext], AbstractAsyncContextManager[StoredResults]
]


@asynccontextmanager
async def open_input(spec: StorageObject, context: StoreContext) -> AsyncIterator[Source]:
    """Open the label `run` under `input`."""
    read_spec(spec, RunStorage, field="input.run")
    run = context.contract.input_run
    if run is None:
        raise ContractError(
            "input.run: the contract has no inputRun, which says where the output of that run is"
        )
    label, output = only_label(run.output, side="inputRun.output")
    if label not in LABELS:
        raise ContractError(
            f"inputRun.output: the label {label!r} cannot be read; allowed: {', '.join(LABELS)}"
        )
    open_results: OpenResults = import_module(
        f"inferrun_runner.stores.{LABELS[label]}"
    ).open_results
    async with open_results(output, run, context) as results:
        manifest = await asyncio.to_thread(_manifest_of, run, results)
        source = RunResults(run, manifest, results, context=context, columns=context.columns)
        with closing(source.rows):
            yield source


def _manifest_of(run: InputRun, results: StoredResults) -> Manifest:
    content = results.read_manifest()
    why = "is missing" if content is None else "is not the one that the run committed"
    if content is not None and hashlib.sha256(content).hexdigest() == run.manifest_sha256:
        try:
            manifest = ENDED_RUN.validate_json(content)
        except ValidationError as error:
            raise InputError(
                "input.run: the manifest was not written by this runner", is_retryable=False
            ) from error
        if isinstance(manifest, Manifest) and manifest.run_id == run.run_id:
            return manifest
        why = "belongs to another run"
    raise InputError(
        f"input.run: the manifest of run {run.name!r} in {results.location} {why}; its output was changed or deleted since",
        is_retryable=False,
    )


class RunResults:
    """The parts in a manifest."""

    def __init__(
        self,
        run: InputRun,
        manifest: Manifest,
        results: StoredResults,
        *,
        context: StoreContext,
        columns: ColumnSelection,
    ) -> None:
        self.fingerprint = f"manifest-sha256:{run.manifest_sha256}"
        self._run = run
        self._results = results
        self._context = context
        self._columns = columns
        self._parts = [part for part in manifest.parts if part.records]
        self.rows = OrderedRows(self._rows_of)
        self._blocks_of: Callable[..., Iterator[Block]] = blocks_of
        if results.readable.read_batches:
            self._blocks_of = import_module("inferrun.formats.stored_tables").blocks_of_tables

    @property
    def abilities(self) -> SourceAbilities:
        """The manifest has the counts."""
        return SourceAbilities(first_chunk=self.first_chunk)

    def plan(self) -> InputPlan:
        """Divide each part into chunks of rows."""
        size = chunk_size(
            sum(part.bytes for part in self._parts), configured=self._context.limits.chunk_bytes
        )
        chunks: list[Chunk] = []
        for unit, part in enumerate(self._parts):
            rows = max(size * part.records // max(part.bytes, 1), 1)
            for start in range(0, part.records, rows):
                end = min(start + rows, part.records)
                chunks.append(Chunk(len(chunks), unit, start, end, part.first + start, end - start))
        return InputPlan(fingerprint=self.fingerprint, chunks=tuple(chunks))

    def first_chunk(self) -> Chunk | None:
        """Return the first part with a prediction, which is the first chunk if its first records
        have not failed."""
        found = (
            (unit, part) for unit, part in enumerate(self._parts) if part.failed < part.records
        )
        return next(
            (Chunk(0, unit, 0, one.records, one.first, one.records) for unit, one in found), None
        )

    def read(self, chunk: Chunk) -> Iterator[Block]:
        """Yield the results in a range of a part. Raises InputError if they are not what was
        committed."""
        try:
            found = self.rows.between(self._parts[chunk.unit], chunk.first, chunk.stop)
            yield from self._blocks_of(found, self._columns, run=self._run.name)
        except ValueError as error:
            raise InputError(
                f"input.run: the results of run {self._run.name!r} cannot be read: {error}",
                is_retryable=False,
            ) from error

    def _rows_of(self, part: ManifestPart) -> Generator[StoredRow, None, None]:
        with ExitStack() as opened:
            folder = opened.enter_context(spool_folder(self._context.spool_dir))
            stored = self._results.spool(part, folder)
            results = opened.enter_context(stored.results.open())
            errors = opened.enter_context(stored.errors.open()) if stored.errors else None
            readable = self._results.readable
            if readable.read_batches:
                from inferrun.formats.stored_tables import table_rows  # noqa: PLC0415  needs pyarrow

                yield from table_rows(readable.read_batches(results))
            else:
                yield from readable.read(results, errors)

    def verify(self) -> None:
        """Each part was compared with the manifest when it was read."""
