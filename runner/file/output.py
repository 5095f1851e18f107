"""The output store `file`: chunks and the run itself are committed by names that are taken once.

Any number of Pods may work at the same run. Each writes under a folder of its own and publishes whole chunks, in order; the
first to publish a chunk wins and the others' work on it is dropped. The same holds for the manifest. So a Pod that was
thought dead, or comes late, changes nothing that is committed, and the next Pod goes on behind the last committed chunk.
"""

import asyncio
import hashlib
import os
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TypeVar

from pydantic import ValidationError

from inferrun.runner_report import Delivery, Output
from runner.errors import OutputError
from runner.file.documents import Manifest, ManifestPart, ManifestRecords, RunDocument, read_run, run_id_of
from runner.file.layout import Layout, Part
from runner.file.no_replace import publish
from runner.file.spec import FileSpec, read_spec
from runner.seams import OutputStore, RecordFormat, StorageObject, Surroundings
from runner.values import Chunk, Counts, Cut, Finished, Json, Memory, Records

T = TypeVar("T")

_CLOSING_SECONDS = 1.0
"""Seconds that the end of a run waits for a volume that does not answer."""


class FileOutput:
    """One run's folder on a claim."""

    delivery: Delivery = "ExactlyOnce"

    def __init__(self, spec: FileSpec, record_format: RecordFormat, around: Surroundings) -> None:
        self._spec = spec
        self._format = record_format
        self._contract = around.contract
        name = Path(around.contract.job_name or run_id_of(around.contract)).name
        self._layout = Layout(folder=around.settings.output_dir / spec.path / name, suffix=record_format.suffix)
        self._location = f"{spec.claim_name}/{spec.path}/{name}"
        self._own = self._layout.attempts / (Path(around.settings.pod_uid).name or f"pid-{os.getpid()}")
        self._open_part: BinaryIO | None = None
        self._cut: Cut | None = None
        self._next_record = 0
        self._written_records = 0
        self._disk = threading.Lock()
        self._finished: Finished | None = None
        self._is_closed = False

    async def open(self) -> Memory:
        """Make the folders and see what is committed."""
        return await self._on_disk(self._look, committed=lambda finished: Memory(finished=finished))

    async def begin(self, cut: Cut) -> Cut:
        """Write down the cut, unless another attempt did."""
        self._cut = await self._on_disk(lambda: self._agree(cut), committed=lambda _: self._read_cut())
        return self._cut

    async def write(self, records: Records, predictions: Sequence[Json]) -> None:
        """Append to the chunk under way."""
        await self._on_disk(lambda: self._append(records, predictions), committed=lambda _: None)

    async def commit(self, chunk: Chunk) -> None:
        """Publish the chunk under way."""
        await self._on_disk(lambda: self._publish_part(chunk), committed=lambda _: None)

    async def finish(self, counts: Counts) -> Finished:
        """Publish the manifest."""
        return await self._on_disk(lambda: self._publish_manifest(counts), committed=lambda finished: finished)

    def close(self) -> None:
        """Drop what is not committed; work that a cancelled call left on its thread comes to its end first, or to nothing."""
        if not self._disk.acquire(timeout=_CLOSING_SECONDS):
            return
        self._is_closed = True
        if self._open_part:
            with suppress(OSError):  # what a full volume could not take is dropped anyway
                self._open_part.close()
        shutil.rmtree(self._own, ignore_errors=True)
        with suppress(OSError):  # other attempts may be at work there
            self._layout.attempts.rmdir()
        self._disk.release()

    async def _on_disk(self, work: Callable[[], T], *, committed: Callable[[Finished], T]) -> T:
        """Do blocking work on a thread; what the file system refuses becomes an error that names the claim.

        Whoever commits the run sweeps away what every attempt has under way. An attempt that meets this has nothing left to
        do, then and from then on: its work is what `committed` makes of the run's result.
        """
        try:
            return await asyncio.to_thread(self._alone, work, committed)
        except OSError as error:
            raise OutputError(
                f"output.file: cannot write to path {self._spec.path!r} of claim {self._spec.claim_name!r}: "
                f"{error.strerror}; {_cure(error)}"
            ) from error
        except ValidationError as error:
            raise OutputError(
                f"output.file: {self._location} holds a file that is not this runner's; move it away"
            ) from error

    def _alone(self, work: Callable[[], T], committed: Callable[[Finished], T]) -> T:
        with self._disk:
            if self._is_closed:
                raise OutputError(f"output.file: {self._location} was closed")
            if self._finished is None:
                try:
                    return work()
                except OSError:
                    self._finished = self._read_manifest()
                    if self._finished is None:
                        raise
            return committed(self._finished)

    def _look(self) -> Memory:
        finished = self._read_manifest()
        if finished:
            return Memory(finished=finished)
        self._layout.predictions.mkdir(parents=True, exist_ok=True)
        self._own.mkdir(parents=True, exist_ok=True)
        run = self._read_run()
        if run is None:
            return Memory()
        parts = self._layout.parts()
        if [part.chunk for part in parts] != list(range(len(parts))):
            raise OutputError(f"output.file: parts of {self._location} are missing; start a new run")
        self._next_record = parts[-1].first + self._format.count_results(parts[-1].path) if parts else 0
        cut = Cut(fingerprint=run.fingerprint, chunk_size=run.chunk_size, total=run.total)
        return Memory(cut=cut, committed_chunks=len(parts), committed_records=self._next_record)

    def _agree(self, cut: Cut) -> Cut:
        document = RunDocument(
            run_id=run_id_of(self._contract),
            job_name=self._contract.job_name,
            fingerprint=cut.fingerprint,
            chunk_size=cut.chunk_size,
            total=cut.total,
        )
        if self._publish_text(document.text(), self._layout.run):
            return cut
        return self._read_cut()

    def _read_cut(self) -> Cut:
        run = self._read_run()
        if run is None:
            raise OutputError(
                f"output.file: {self._location}/run.json vanished; leave the folder alone while the run works"
            )
        return Cut(fingerprint=run.fingerprint, chunk_size=run.chunk_size, total=run.total)

    def _append(self, records: Records, predictions: Sequence[Json]) -> None:
        self._format.write(self._part(), records, predictions)
        self._written_records += len(predictions)

    def _part(self) -> BinaryIO:
        if self._open_part is None:
            self._own.mkdir(parents=True, exist_ok=True)
            self._open_part = (self._own / "part").open("wb")
        return self._open_part

    def _publish_part(self, chunk: Chunk) -> None:
        final = self._layout.part(chunk.index, self._next_record)
        part = self._part()
        self._next_record += self._written_records
        self._open_part, self._written_records = None, 0
        with part:
            part.flush()
            os.fsync(part.fileno())
        publish(self._own / "part", final)

    def _publish_manifest(self, counts: Counts) -> Finished:
        if self._cut is None:
            raise AssertionError("finish comes after begin")
        if finished := self._read_manifest():
            return finished
        manifest = Manifest(
            run_id=run_id_of(self._contract),
            job_name=self._contract.job_name,
            model_name=self._contract.kserve.model_name,
            model_url=self._contract.kserve.model_url,
            fingerprint=self._cut.fingerprint,
            parts=tuple(self._described(part) for part in self._layout.parts()),
            records=ManifestRecords(total=counts.total, completed=counts.completed, failed=counts.failed),
        )
        stored = sum(part.records for part in manifest.parts)
        if stored != counts.completed:
            raise OutputError(
                f"output.file: {self._location} holds {stored} predictions, {counts.completed} were made; nothing "
                "was committed; leave the folder alone while the run works"
            )
        self._publish_text(manifest.text(), self._layout.manifest)
        finished = self._read_manifest()
        if finished is None:
            raise OutputError(f"output.file: {self._location}/manifest.json vanished; leave the folder alone")
        shutil.rmtree(self._layout.attempts, ignore_errors=True)
        return finished

    def _described(self, part: Part) -> ManifestPart:
        with part.path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        return ManifestPart(
            file=f"predictions/{part.path.name}",
            first=part.first,
            bytes=part.path.stat().st_size,
            records=self._format.count_results(part.path),
            sha256=digest,
        )

    def _publish_text(self, text: bytes, final: Path) -> bool:
        self._own.mkdir(parents=True, exist_ok=True)
        draft = self._own / final.name
        with draft.open("wb") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        return publish(draft, final)

    def _read_run(self) -> RunDocument | None:
        run = read_run(self._layout.run)
        if run and run.run_id != run_id_of(self._contract):
            raise OutputError(
                f"output.file: {self._location} belongs to another run ({run.run_id}); give this run another "
                "output path"
            )
        return run

    def _read_manifest(self) -> Finished | None:
        try:
            text = self._layout.manifest.read_bytes()
        except FileNotFoundError:
            return None
        manifest = Manifest.model_validate_json(text)
        if manifest.run_id != run_id_of(self._contract):
            raise OutputError(
                f"output.file: {self._location} belongs to another run ({manifest.run_id}); give this run "
                "another output path"
            )
        output = Output(
            location=self._location[:1024],
            manifest=f"{self._location}/{self._layout.manifest.name}"[:1024],
            sha256=hashlib.sha256(text).hexdigest(),
        )
        records = manifest.records
        return Finished(total=records.total, completed=records.completed, failed=records.failed, output=output)


def _cure(error: OSError) -> str:
    if isinstance(error, PermissionError):
        return "the runner is user 65532; the volume must be writable for that user or group"
    if error.errno == 30:  # EROFS
        return "the volume is mounted read-only; its claim needs an access mode that writes"
    if error.errno in {28, 122}:  # ENOSPC, EDQUOT
        return "make room on the claim; the run goes on behind what is committed"
    return "is the volume in order?"


@asynccontextmanager
async def open_output(spec: StorageObject, around: Surroundings) -> AsyncIterator[OutputStore]:
    """Label `file` under `output`."""
    wanted = read_spec(spec, side="output")
    store = FileOutput(wanted, around.format_named(wanted.format, "output.file.format"), around)
    try:
        yield store
    finally:
        store.close()
