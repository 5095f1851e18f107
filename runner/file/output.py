"""The output store `file`: chunks and the run itself are committed by publishing files under names that are never replaced.

Any number of Pods may execute the same run at the same time. Each writes to a folder of its own and commits whole chunks; the first
to publish the commit of a chunk wins, and the others discard their files. The winner's files then get their final names; if it
dies before, any other attempt does it, because the commit says where they are. The manifest commits the run in the same way. So a
late Pod, or one that was presumed dead, changes nothing that is committed, and the next Pod continues with the chunks that are
missing.
"""

import asyncio
import errno
import os
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Literal, TypeVar

from pydantic import ValidationError

from inferrun.plugins import (
    Batch,
    Checkpoint,
    Chunk,
    ChunkCommit,
    Claim,
    CommittedRun,
    Counts,
    Delivery,
    EarlierResults,
    InputPlan,
    Member,
    OutputError,
    OutputStore,
    RecordFormat,
    ResultCounts,
    Results,
    RetriedRun,
    StorageObject,
    StoreContext,
    Survey,
)
from runner.file.beneath import LinkOutside, open_folder, opened_folder, path_of, read_file
from runner.file.exclusive_publish import check_volume, publish, publish_name, sync_folder
from runner.file.layout import Layout
from runner.file.spec import FileSpec, read_spec
from runner.run_folder.chunk_writer import PartChunkWriter
from runner.run_folder.documents import (
    ChunkDocument,
    ClaimDocument,
    Manifest,
    MemberDocument,
    RunDocument,
    StoredFile,
    chunk_document_of,
    claim_name,
    claim_of,
    committed_chunks,
    document_of,
    latest_claims,
    manifest_of,
    member_document_of,
    run_id_of,
)
from runner.run_folder.ownership import Aborted, RunFolder
from runner.run_folder.part_writer import ERRORS_DRAFT, PartWriter

T = TypeVar("T")

_CLOSING_SECONDS = 0.5
"""Seconds for which closing the store waits for a volume that does not respond."""

_ABANDON_SECONDS = 0.3
"""Seconds for which an abandoned commit waits for a volume that does not respond."""

_UNSUPPORTED = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class FileOutput:
    """The output folder of one run on a claim."""

    delivery: Delivery = "ExactlyOnce"
    commits_chunks = True
    stores_copied: Literal[True] = True

    def __init__(self, spec: FileSpec, record_format: RecordFormat, context: StoreContext) -> None:
        self._spec = spec
        self._format = record_format
        self._contract = context.contract
        name = Path(context.contract.job_name or run_id_of(context.contract)).name
        self._root = context.output_dir
        self._path = str(PurePosixPath(spec.path) / name)
        self._handle: int | None = None
        self._layout = Layout(folder=self._root / self._path, suffix=record_format.results_suffix)
        self._location = f"{spec.claim_name}/{spec.path}/{name}"
        self._run_folder = RunFolder("output.file", self._location, context.contract)
        self._attempt = Path(context.pod_uid).name or f"pid-{os.getpid()}"
        self._own = self._layout.attempts / self._attempt
        self._plan: InputPlan | None = None
        self._commits: dict[int, ChunkDocument] = {}
        self._parts: dict[int, PartWriter] = {}
        self._has_unpublished_files = False
        self._disk = threading.Lock()
        self._commit_step = threading.Lock()
        self._is_commit_abandoned = False
        self._committed_run: CommittedRun | None = None
        self._is_closed = False
        self._is_shared = False

    async def open(self) -> Checkpoint:
        """Create the folders and read what is committed."""
        return await self._on_disk(self._read_checkpoint, committed=lambda run: Checkpoint(committed_run=run))

    async def begin(self, plan: InputPlan) -> InputPlan:
        """Publish the plan unless another attempt did."""
        self._plan = await self._on_disk(lambda: self._publish_plan(plan), committed=lambda _: self._read_plan())
        return self._plan

    def writer(self, chunk: Chunk) -> PartChunkWriter:
        """Return the writer of a chunk."""
        self._parts[chunk.index] = PartWriter(self._own, f"{chunk.index:06}", self._format)
        return PartChunkWriter(self, chunk, self._parts[chunk.index])

    async def append(self, part: PartWriter, written: Sequence[tuple[Batch, Results]]) -> None:
        """Append to the files of a chunk."""
        await self._on_disk(lambda: part.append_all(written), committed=lambda _: None)

    async def commit(self, chunk: Chunk, part: PartWriter) -> ChunkCommit:
        """Publish the commit of a chunk, and its files if no other attempt committed it before."""
        return await self._on_disk(
            lambda: self._commit_chunk(chunk, part),
            committed=lambda _: ChunkCommit(ResultCounts(chunk.records), won=False),
        )

    async def finish(self, counts: Counts) -> CommittedRun:
        """Publish the manifest."""
        try:
            return await self._on_disk(lambda: self._publish_manifest(counts), committed=lambda run: run)
        except asyncio.CancelledError:
            committed_run = await self._abandon_commit()
            if committed_run is None:
                raise
            return committed_run

    async def claim(self, claim: Claim) -> bool:
        """Publish a claim."""
        return await self._on_disk(lambda: self._publish_claim(claim), committed=lambda _: False)

    async def report(self, member: Member) -> None:
        """Replace the Pod's sign of life."""
        await self._on_disk(lambda: self._replace_member(member), committed=lambda _: None)

    async def survey(self) -> Survey:
        """List the commits and the claims, and read the signs of life."""
        return await self._on_disk(self._read_survey, committed=lambda _: Survey(is_run_committed=True))

    async def read_commits(self) -> Mapping[int, ChunkCommit]:
        """Read the commits, and give their files their final names if a Pod died before it did."""
        return await self._on_disk(self._adopt_commits, committed=lambda _: {})

    async def find_commit(self) -> CommittedRun | None:
        """Read the manifest."""
        return await self._on_disk(self._find_commit, committed=lambda run: run)

    async def abort(self) -> CommittedRun | None:
        """Publish a document in place of the manifest, unless an attempt has published the manifest."""
        return await self._on_disk(self._publish_abort, committed=lambda run: run)

    async def probe(self) -> str:
        """Publish names in a temporary folder, as commits will be, in the deepest folder of the path that exists."""
        await self._on_disk(self._probe_folder, committed=lambda _: None)
        return f"output.file {self._location}"

    async def earlier_results(self, run: RetriedRun) -> EarlierResults | None:
        """Read the folder of an ended run beside that of this run."""
        from runner.file.earlier import read_earlier  # noqa: PLC0415  only a run that retries another one needs it

        location = f"{self._spec.claim_name}/{self._spec.path}/{Path(run.job_name).name}"
        return await self._on_disk(
            lambda: read_earlier(self._root, self._spec.path, run, record_format=self._format, location=location),
            committed=lambda _: None,
        )

    def close(self) -> None:
        """Discard uncommitted work.

        Waits for work that a cancelled call left running on its thread; if that has not started yet, it will not.
        """
        if not self._disk.acquire(timeout=_CLOSING_SECONDS):
            return
        self._is_closed = True
        for part in self._parts.values():
            part.discard()
        if self._handle is not None:
            if not self._has_unpublished_files:
                shutil.rmtree(self._own, ignore_errors=True)
            with suppress(OSError):  # other attempts may still be working there
                self._layout.attempts.rmdir()
            if self._is_shared and self._layout.manifest.exists():
                self._delete_shared_folders()
            os.close(self._handle)
        self._disk.release()

    async def _abandon_commit(self) -> CommittedRun | None:
        """Prevent the thread of a cancelled `finish` from publishing the manifest, or return the run if it already has."""
        self._is_commit_abandoned = True
        if self._committed_run is None and self._commit_step.locked():
            if not await asyncio.to_thread(self._commit_step.acquire, timeout=_ABANDON_SECONDS):
                # The thread is publishing the manifest on a volume that hangs; only the volume knows whether the name exists.
                with suppress(OSError):
                    if committed_run := await asyncio.to_thread(self._read_manifest):
                        return committed_run
                await asyncio.to_thread(self._commit_step.acquire)
            self._commit_step.release()
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
                f"{error.strerror}; {_fix(error)}",
                is_retryable=error.errno != errno.ELOOP,
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
                    self._delete_work()
            return committed(self._committed_run)

    def _enter_folder(self, *, create: bool = True) -> None:
        """Open the run's folder. From then on, every path is relative to the opened folder."""
        if self._handle is not None:
            return
        self._handle = open_folder(self._root, self._path, create=create)
        self._layout = Layout(folder=path_of(self._handle), suffix=self._format.results_suffix)
        self._own = self._layout.attempts / self._attempt

    def _read_checkpoint(self) -> Checkpoint:
        self._enter_folder()
        if committed_run := self._read_manifest():
            return Checkpoint(committed_run=committed_run)
        self._prepare_folders()
        self._check_uncommitted()
        run = self._read_run()
        if run is None:
            return Checkpoint()
        return Checkpoint(plan=run.plan(), committed=self._adopt_commits())

    def _check_uncommitted(self) -> None:
        """Raise FileExistsError if the run has ended, perhaps since the folders of its work were created or a chunk was committed.

        The attempt that commits the run deletes the commits of its chunks, so a chunk without a commit may be in the output.
        """
        if self._layout.manifest.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self._layout.manifest.name)

    def _adopt_commits(self) -> dict[int, ChunkCommit]:
        self._commits = {document.chunk: document for document in self._read_commits()}
        for document in self._commits.values():
            self._publish_files(document)
        return {chunk: document.commit(won=False) for chunk, document in self._commits.items()}

    def _publish_claim(self, claim: Claim) -> bool:
        """A claim need not be durable: if it is lost, work is done twice."""
        name = claim_name(claim)
        self._prepare_shared_folders()
        draft = self._write_volatile(ClaimDocument(owner=claim.owner).text(), name=f"claim-{name}")
        won = publish_name(draft, self._layout.claims / name)
        draft.unlink(missing_ok=True)
        return won

    def _replace_member(self, member: Member) -> None:
        name = f"{Path(member.name).name}.json"
        self._prepare_shared_folders()
        draft = self._write_volatile(member_document_of(member).text(), name=f"member-{name}")
        draft.replace(self._layout.members / name)

    def _write_volatile(self, text: bytes, *, name: str) -> Path:
        self._own.mkdir(parents=True, exist_ok=True)
        draft = self._own / name
        draft.write_bytes(text)
        return draft

    def _read_survey(self) -> Survey:
        if self._read_manifest() is not None:
            return Survey(is_run_committed=True)
        committed = committed_chunks(path.name for path in self._layout.commits.glob("*.json"))
        latest = latest_claims(path.name for path in self._layout.claims.glob("*.json"))
        claims = {
            chunk: claim_of(name, read_file(self._layout.claims / name))
            for chunk, name in latest.items()
            if chunk not in committed
        }
        documents = [
            MemberDocument.model_validate_json(read_file(path)) for path in self._layout.members.glob("*.json")
        ]
        members = {document.name: document.member() for document in documents}
        return Survey(committed=committed, claims=claims, members=members)

    def _read_commits(self) -> list[ChunkDocument]:
        paths = sorted(self._layout.commits.glob("*.json"))
        return [ChunkDocument.model_validate_json(read_file(path)) for path in paths]

    def _prepare_folders(self) -> None:
        self._create(self._layout.predictions, self._layout.commits, self._own)
        self._check_volume(self._own)

    def _prepare_shared_folders(self) -> None:
        """Once only: if they are gone, another Pod has committed the run."""
        if not self._is_shared:
            self._create(self._layout.claims, self._layout.members)
            self._is_shared = True

    def _delete_shared_folders(self) -> None:
        """By every Pod that ends after the commit: the others may have added something while the first one deleted them."""
        for folder in (self._layout.claims, self._layout.members):
            shutil.rmtree(folder, ignore_errors=True)

    def _create(self, *folders: Path) -> None:
        for folder in folders:
            with opened_folder(self._layout.folder, str(folder.relative_to(self._layout.folder)), create=True):
                pass  # neither they nor their parents are links that lead elsewhere

    def _probe_folder(self) -> None:
        for parent in (self._path, *map(str, PurePosixPath(self._path).parents)):
            with suppress(FileNotFoundError), opened_folder(self._root, parent) as folder:
                draft = folder / f".inferrun-probe-{self._attempt}"
                draft.mkdir()
                try:
                    self._check_volume(draft)
                finally:
                    draft.rmdir()
                return

    def _check_volume(self, folder: Path) -> None:
        try:
            check_volume(folder)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            raise OutputError(
                f"output.file: the volume of claim {self._spec.claim_name!r} supports neither hard links nor no-replace "
                "renames, so chunks cannot be committed exactly once; use a claim of another storage class",
                is_retryable=False,
            ) from error

    def _publish_plan(self, plan: InputPlan) -> InputPlan:
        document = document_of(plan, self._contract)
        draft = self._write_draft(document.text(), name=self._layout.run.name)
        return plan if publish(draft, self._layout.run) else self._read_plan()

    def _read_plan(self) -> InputPlan:
        run = self._read_run()
        if run is None:
            raise OutputError(
                f"output.file: {self._location}/run.json was deleted; do not modify the folder during a run"
            )
        return run.plan()

    def _commit_chunk(self, chunk: Chunk, part: PartWriter) -> ChunkCommit:
        draft = part.finish()
        name = self._layout.part_name(chunk.index, chunk.first)
        document = chunk_document_of(chunk, draft, name=name, suffix=self._layout.suffix, attempt=self._own.name)
        record = self._write_draft(document.text(), name=self._layout.commit(chunk.index).name)
        sync_folder(self._own)  # the drafts' names are durable before a commit refers to them
        won = publish(record, self._layout.commit(chunk.index))
        if not won:
            part.discard()
            document = ChunkDocument.model_validate_json(read_file(self._layout.commit(chunk.index)))
        self._has_unpublished_files = won
        self._publish_files(document)  # the one that won may be about to do so, or have been killed
        self._has_unpublished_files = False
        self._commits[chunk.index] = document
        del self._parts[chunk.index]
        return document.commit(won=won)

    def _publish_files(self, document: ChunkDocument) -> None:
        """Give the files of a committed chunk their final names, unless they have them. Raises FileExistsError."""
        self._check_uncommitted()
        drafts = self._layout.attempts / document.attempt
        self._publish_file(drafts / f"{document.chunk:06}{self._layout.suffix}", document.part)
        if document.part.errors:
            self._layout.errors.mkdir(exist_ok=True)
            self._publish_file(drafts / f"{document.chunk:06}{ERRORS_DRAFT}", document.part.errors)

    def _publish_file(self, draft: Path, file: StoredFile) -> None:
        final = self._layout.folder / file.file
        try:
            draft.replace(final)
        except FileNotFoundError:
            if not final.exists() and not self._layout.manifest.exists():
                raise OutputError(
                    f"output.file: parts are missing in {self._location} ({file.file}); start a new run"
                ) from None

    def _publish_manifest(self, counts: Counts) -> CommittedRun:
        if self._plan is None:
            raise AssertionError("finish was called before begin")
        if committed_run := self._read_manifest():
            return committed_run
        manifest = manifest_of(self._contract, self._plan, self._commits, counts)
        self._check_files(manifest)
        for folder in (self._layout.predictions, self._layout.errors):
            if folder.exists():
                sync_folder(folder)
        self._run_folder.check_complete(manifest, counts)
        self._committed_run = self._commit(manifest.text())
        sync_folder(self._layout.folder)
        self._delete_work()
        return self._committed_run

    def _delete_work(self) -> None:
        """Delete what a committed run does not need any more."""
        self._delete_shared_folders()
        for folder in (self._layout.attempts, self._layout.commits):
            shutil.rmtree(folder, ignore_errors=True)

    def _check_files(self, manifest: Manifest) -> None:
        """Verify that all parts exist with their sizes."""
        for part in manifest.parts:
            path = self._layout.folder / part.file
            if not path.exists() or path.stat().st_size != part.bytes:
                raise OutputError(
                    f"output.file: {self._location}/{part.file} is missing or has changed, so the run was not committed; "
                    "do not modify the folder during a run"
                )

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
        try:
            self._enter_folder(create=False)
        except FileNotFoundError:
            return None
        committed_run = self._read_commit()
        if committed_run is not None:
            sync_folder(self._layout.folder)  # the attempt that published the name may have died before it did
        return committed_run

    def _publish_abort(self) -> CommittedRun | None:
        self._enter_folder()
        draft = self._write_draft(self._run_folder.abort().text(), name=self._layout.manifest.name)
        publish_name(draft, self._layout.manifest)
        sync_folder(self._layout.folder)
        return self._read_commit()

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
        try:
            run = RunDocument.model_validate_json(read_file(self._layout.run))
        except FileNotFoundError:
            return None
        self._run_folder.check_owner(run.run_id)
        return run

    def _read_manifest(self) -> CommittedRun | None:
        try:
            content = read_file(self._layout.manifest)
        except FileNotFoundError:
            return None
        return self._run_folder.committed_run(content)

    def _read_commit(self) -> CommittedRun | None:
        try:
            return self._read_manifest()
        except Aborted:
            return None


def _fix(error: OSError) -> str:
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return "the runner runs as user 65532; make the volume writable for that user or group"
        case errno.ELOOP:
            is_folder = isinstance(error, LinkOutside)
            return "replace the link with a folder" if is_folder else "remove the links from the folder of the run"
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
