"""The output store `file`: chunks and the run itself are committed by publishing files under names that are never replaced.

Any number of Pods may execute the same run at the same time. Each writes to a folder of its own and publishes whole chunks in
order; the first to publish a chunk wins, and the others discard their copy. The same applies to the manifest. So a late Pod, or
one that was presumed dead, changes nothing that is committed, and the next Pod continues after the last committed chunk.
"""

import asyncio
import errno
import hashlib
import os
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from inferrun.plugins import (
    Batch,
    Checkpoint,
    Chunk,
    CommittedRun,
    Counts,
    Delivery,
    InputPlan,
    Output,
    OutputError,
    OutputStore,
    Prediction,
    RecordFormat,
    ResultCounts,
    StorageObject,
    StoreContext,
)
from runner.file.documents import (
    ENDED_RUN,
    AbortedRun,
    Manifest,
    ManifestPart,
    ManifestRecords,
    RunDocument,
    read_run,
    run_id_of,
)
from runner.file.exclusive_publish import check_volume, create_folder, publish, publish_name, sync_folder
from runner.file.hashing import HashingReader
from runner.file.layout import Layout, Part
from runner.file.part_writer import PartWriter
from runner.file.spec import FileSpec, read_spec

T = TypeVar("T")

_CLOSING_SECONDS = 1.0
"""Seconds for which closing the store waits for a volume that does not respond."""

_ABANDON_SECONDS = 0.3
"""Seconds for which an abandoned commit waits for a volume that does not respond."""

_UNSUPPORTED = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class Aborted(OutputError):
    """The run was aborted, and can never be committed."""


class FileOutput:
    """The output folder of one run on a claim."""

    delivery: Delivery = "ExactlyOnce"
    commits_chunks = True

    def __init__(self, spec: FileSpec, record_format: RecordFormat, context: StoreContext) -> None:
        self._spec = spec
        self._format = record_format
        self._contract = context.contract
        name = Path(context.contract.job_name or run_id_of(context.contract)).name
        self._root = context.output_dir
        self._layout = Layout(folder=context.output_dir / spec.path / name, suffix=record_format.suffix)
        self._location = f"{spec.claim_name}/{spec.path}/{name}"
        self._own = self._layout.attempts / (Path(context.pod_uid).name or f"pid-{os.getpid()}")
        self._part = PartWriter(self._own, record_format)
        self._plan: InputPlan | None = None
        self._next_record = 0
        self._descriptions: dict[str, ManifestPart] = {}
        self._disk = threading.Lock()
        self._commit_step = threading.Lock()
        self._is_commit_abandoned = False
        self._committed_run: CommittedRun | None = None
        self._is_closed = False

    async def open(self) -> Checkpoint:
        """Create the folders and read what is committed."""
        return await self._on_disk(self._read_checkpoint, committed=lambda run: Checkpoint(committed_run=run))

    async def begin(self, plan: InputPlan) -> InputPlan:
        """Publish the plan unless another attempt did."""
        self._plan = await self._on_disk(lambda: self._publish_plan(plan), committed=lambda _: self._read_plan())
        return self._plan

    async def write(self, batch: Batch, predictions: Sequence[Prediction]) -> None:
        """Append to the current chunk."""
        await self._on_disk(lambda: self._part.append(batch, predictions), committed=lambda _: None)

    async def commit(self, chunk: Chunk) -> None:
        """Publish the current chunk."""
        await self._on_disk(lambda: self._publish_part(chunk), committed=lambda _: None)

    async def finish(self, counts: Counts) -> CommittedRun:
        """Publish the manifest."""
        try:
            return await self._on_disk(lambda: self._publish_manifest(counts), committed=lambda run: run)
        except asyncio.CancelledError:
            committed_run = await self._abandon_commit()
            if committed_run is None:
                raise
            return committed_run

    async def find_commit(self) -> CommittedRun | None:
        """Read the manifest."""
        return await self._on_disk(self._find_commit, committed=lambda run: run)

    async def abort(self) -> CommittedRun | None:
        """Publish a document in place of the manifest, unless an attempt has published the manifest."""
        return await self._on_disk(self._publish_abort, committed=lambda run: run)

    def close(self) -> None:
        """Discard uncommitted work.

        Waits for work that a cancelled call left running on its thread; if that has not started yet, it will not.
        """
        if not self._disk.acquire(timeout=_CLOSING_SECONDS):
            return
        self._is_closed = True
        self._part.close()
        shutil.rmtree(self._own, ignore_errors=True)
        with suppress(OSError):  # other attempts may still be working there
            self._layout.attempts.rmdir()
        self._disk.release()

    async def _abandon_commit(self) -> CommittedRun | None:
        """Prevent the thread of a cancelled `finish` from publishing the manifest, or return the run if it already has."""
        self._is_commit_abandoned = True
        if self._committed_run is None and self._commit_step.locked():
            if await asyncio.to_thread(self._commit_step.acquire, timeout=_ABANDON_SECONDS):
                self._commit_step.release()
                return self._committed_run
            # The thread is publishing the manifest on a volume that hangs; only the volume knows whether the name exists.
            with suppress(TimeoutError, OSError):
                return await asyncio.wait_for(asyncio.to_thread(self._read_manifest), _ABANDON_SECONDS)
        return self._committed_run

    async def _on_disk(self, work: Callable[[], T], *, committed: Callable[[CommittedRun], T]) -> T:
        """Do blocking work on a thread and convert OSError into an error that names the claim.

        The attempt that commits the run deletes the uncommitted work of all attempts. An attempt whose files disappear in this
        way has nothing left to do: this call and all later ones return `committed`, applied to the run's result.
        """
        try:
            return await asyncio.to_thread(self._exclusively, work, committed)
        except OSError as error:
            raise OutputError(
                f"output.file: cannot write to path {self._spec.path!r} on claim {self._spec.claim_name!r}: "
                f"{error.strerror}; {_fix(error)}"
            ) from error
        except ValidationError as error:
            raise OutputError(
                f"output.file: {self._location} contains a file that this runner did not write; remove it"
            ) from error

    def _exclusively(self, work: Callable[[], T], committed: Callable[[CommittedRun], T]) -> T:
        with self._disk:
            if self._is_closed:
                raise OutputError(f"output.file: {self._location} is closed")
            if self._committed_run is None:
                try:
                    return work()
                except OSError:
                    self._committed_run = self._read_manifest()
                    if self._committed_run is None:
                        raise
            return committed(self._committed_run)

    def _read_checkpoint(self) -> Checkpoint:
        if committed_run := self._read_manifest():
            return Checkpoint(committed_run=committed_run)
        self._prepare_folders()
        run = self._read_run()
        if run is None:
            return Checkpoint()
        parts = self._layout.parts()
        if [part.chunk for part in parts] != list(range(len(parts))):
            raise OutputError(f"output.file: parts are missing in {self._location}; start a new run")
        committed = ResultCounts(0)
        for part in parts:
            description, counts = self._describe(part)
            self._descriptions[part.path.name] = description
            committed += counts
        self._next_record = committed.total
        return Checkpoint(plan=_plan_of(run), committed_chunks=len(parts), committed=committed)

    def _prepare_folders(self) -> None:
        create_folder(self._layout.predictions, root=self._root)
        self._own.mkdir(parents=True, exist_ok=True)
        try:
            check_volume(self._own)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            raise OutputError(
                f"output.file: the volume of claim {self._spec.claim_name!r} supports neither hard links nor no-replace "
                "renames, so chunks cannot be committed exactly once; use a claim of another storage class",
                is_retryable=False,
            ) from error

    def _publish_plan(self, plan: InputPlan) -> InputPlan:
        document = RunDocument(
            run_id=run_id_of(self._contract),
            job_name=self._contract.job_name,
            fingerprint=plan.fingerprint,
            chunk_size=plan.chunk_size,
            total=plan.total,
        )
        draft = self._write_draft(document.text(), name=self._layout.run.name)
        return plan if publish(draft, self._layout.run) else self._read_plan()

    def _read_plan(self) -> InputPlan:
        run = self._read_run()
        if run is None:
            raise OutputError(
                f"output.file: {self._location}/run.json was deleted; do not modify the folder during a run"
            )
        return _plan_of(run)

    def _publish_part(self, chunk: Chunk) -> None:
        first = self._next_record
        final = self._layout.part(chunk.index, first)
        self._next_record += self._part.records
        description = self._part.publish(final, first=first)
        if description:
            self._descriptions[final.name] = description

    def _publish_manifest(self, counts: Counts) -> CommittedRun:
        if self._plan is None:
            raise AssertionError("finish was called before begin")
        if committed_run := self._read_manifest():
            return committed_run
        manifest = Manifest(
            run_id=run_id_of(self._contract),
            job_name=self._contract.job_name,
            model_name=self._contract.kserve.model_name,
            model_url=self._contract.kserve.model_url,
            fingerprint=self._plan.fingerprint,
            parts=tuple(
                self._descriptions.get(part.path.name) or self._describe(part)[0] for part in self._layout.parts()
            ),
            records=ManifestRecords(total=counts.total, completed=counts.completed, failed=counts.failed),
        )
        stored = sum(part.records for part in manifest.parts)
        if stored != counts.completed + counts.failed:
            raise OutputError(
                f"output.file: {self._location} contains {stored} results, expected {counts.total}; the run was "
                "not committed; do not modify the folder during a run"
            )
        self._committed_run = self._commit(manifest.text())
        sync_folder(self._layout.folder)
        shutil.rmtree(self._layout.attempts, ignore_errors=True)
        return self._committed_run

    def _commit(self, manifest: bytes) -> CommittedRun:
        """Publish the manifest, or return the run if another attempt did."""
        draft = self._write_draft(manifest, name=self._layout.manifest.name)
        with self._commit_step:
            if self._is_commit_abandoned:
                raise OutputError(f"output.file: {self._location} was not committed before the process was stopped")
            publish_name(draft, self._layout.manifest)
            self._committed_run = self._read_manifest()
        if self._committed_run is None:
            raise OutputError(
                f"output.file: {self._location}/manifest.json was deleted; do not modify the folder during a run"
            )
        return self._committed_run

    def _find_commit(self) -> CommittedRun | None:
        committed_run = self._read_commit()
        if committed_run is not None:
            sync_folder(self._layout.folder)  # the attempt that published the name may have died before it did
        return committed_run

    def _publish_abort(self) -> CommittedRun | None:
        create_folder(self._layout.folder, root=self._root)
        document = AbortedRun(run_id=run_id_of(self._contract), job_name=self._contract.job_name)
        draft = self._write_draft(document.text(), name=self._layout.manifest.name)
        publish_name(draft, self._layout.manifest)
        sync_folder(self._layout.folder)
        return self._read_commit()

    def _describe(self, part: Part) -> tuple[ManifestPart, ResultCounts]:
        """Read a part that another attempt committed, once."""
        with HashingReader(part.path) as reader:
            counts = self._format.count_results(reader.file)
            size, sha256 = reader.finish()
        description = ManifestPart(
            file=f"predictions/{part.path.name}", first=part.first, records=counts.total, bytes=size, sha256=sha256
        )
        return description, counts

    def _write_draft(self, text: bytes, *, name: str) -> Path:
        """Write a file durably under this attempt's own folder."""
        self._own.mkdir(parents=True, exist_ok=True)
        draft = self._own / name
        with draft.open("wb") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        return draft

    def _read_run(self) -> RunDocument | None:
        run = read_run(self._layout.run)
        if run:
            self._check_owner(run.run_id)
        return run

    def _read_manifest(self) -> CommittedRun | None:
        try:
            text = self._layout.manifest.read_bytes()
        except FileNotFoundError:
            return None
        manifest = ENDED_RUN.validate_json(text)
        self._check_owner(manifest.run_id)
        if isinstance(manifest, AbortedRun):
            raise Aborted(
                f"output.file: the run in {self._location} has failed and was aborted; start a new run",
                is_retryable=False,
            )
        output = Output(
            location=self._location[:1024],
            manifest=f"{self._location}/{self._layout.manifest.name}"[:1024],
            sha256=hashlib.sha256(text).hexdigest(),
        )
        records = manifest.records
        return CommittedRun(total=records.total, completed=records.completed, failed=records.failed, output=output)

    def _read_commit(self) -> CommittedRun | None:
        try:
            return self._read_manifest()
        except Aborted:
            return None

    def _check_owner(self, run_id: str) -> None:
        if run_id != run_id_of(self._contract):
            raise OutputError(
                f"output.file: {self._location} belongs to another run ({run_id}); use another output path"
            )


def _plan_of(run: RunDocument) -> InputPlan:
    return InputPlan(fingerprint=run.fingerprint, chunk_size=run.chunk_size, total=run.total)


def _fix(error: OSError) -> str:
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return "the runner runs as user 65532; make the volume writable for that user or group"
        case errno.EROFS:
            return "the volume is mounted read-only; use a claim with a writable access mode"
        case errno.ENOSPC | errno.EDQUOT:
            return "free space on the claim; the next attempt continues after the last committed chunk"
        case _:
            return "check the volume"


@asynccontextmanager
async def open_output(spec: StorageObject, context: StoreContext) -> AsyncIterator[OutputStore]:
    """Open the label `file` under `output`."""
    wanted = read_spec(spec, side="output")
    store = FileOutput(wanted, context.format_named(wanted.format, "output.file.format"), context)
    try:
        yield store
    finally:
        store.close()
