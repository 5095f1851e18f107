"""The output store `s3`: chunks and the run itself are committed by conditional writes (`If-None-Match: *`).

Objects below `<path>/<jobName>/`:

    run.json                                           identifies the run and its input plan; written first, once
    predictions/part-000000-000000000000-<attempt>.…   results of a chunk
    errors/part-000000-000000000000-<attempt>.…        its failed records, if there are any
    commits/000000.json                                commits a chunk: names the objects that belong to it; kept
    manifest.json                                      commits the run; lists all objects
    claims/000000-000.json, members/<Pod>.json         of a run with several Pods: which one predicts a chunk, and their signs of
                                                       life; deleted when the run is committed

Any number of Pods may execute the same run. Each uploads objects under names of its own; the first to write the commit of a chunk
wins, and only the winner's objects are in the manifest. When the run is committed, other objects with results are deleted. A
chunk is spooled to the Pod's disk before it is uploaded.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
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
    Results,
    RetriedRun,
    StorageObject,
    StoreContext,
    Survey,
)
from runner.run_folder.chunk_writer import PartChunkWriter
from runner.run_folder.documents import (
    ChunkDocument,
    ClaimDocument,
    Manifest,
    MemberDocument,
    RunDocument,
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
from runner.s3.bucket import Bucket, StoredObject, open_bucket
from runner.s3.earlier import read_earlier
from runner.s3.spec import S3Spec, read_spec

T = TypeVar("T")

_PROBE = b"inferrun probes whether this server supports conditional writes\n"


_READS_AT_A_TIME = 8
"""Commits that are read at a time: each is a small object, so the latency of the server counts."""


class S3Output:
    """The objects of one run in a bucket."""

    delivery: Delivery = "ExactlyOnce"
    commits_chunks = True
    stores_copied: Literal[True] = True

    def __init__(self, spec: S3Spec, bucket: Bucket, record_format: RecordFormat, context: StoreContext) -> None:
        self._bucket = bucket
        self._spec = spec
        self._format = record_format
        self._contract = context.contract
        name = Path(context.contract.job_name or run_id_of(context.contract)).name
        self._prefix = f"{spec.path.rstrip('/')}/{name}"
        self._location = f"s3://{spec.bucket}/{self._prefix}"
        self._run_folder = RunFolder("output.s3", self._location, context.contract)
        self._attempt = (context.pod_uid or f"pid-{id(self):x}").replace("/", "-")
        self._spool = context.spool_dir / f"output-{self._attempt}"
        self._limits = context.limits
        self._parts: dict[int, PartWriter] = {}
        self._commits: dict[int, ChunkDocument] = {}
        self._plan: InputPlan | None = None
        self._shared: dict[str, tuple[str, bytes]] = {}

    async def open(self) -> Checkpoint:
        """Read what is committed, and probe the server if this is the first attempt."""
        return await self._on_thread(self._read_checkpoint)

    async def begin(self, plan: InputPlan) -> InputPlan:
        """Store the plan unless another attempt did."""
        self._plan = await self._on_thread(lambda: self._store_plan(plan))
        return self._plan

    def writer(self, chunk: Chunk) -> PartChunkWriter:
        """Return the writer of a chunk."""
        self._parts[chunk.index] = PartWriter(self._spool, f"{chunk.index:06}", self._format)
        return PartChunkWriter(self, chunk, self._parts[chunk.index])

    async def append(self, part: PartWriter, written: Sequence[tuple[Batch, Results]]) -> None:
        """Append the results of consecutive batches to the spooled files of a chunk."""
        await self._on_thread(lambda: part.append_all(written))

    async def commit(self, chunk: Chunk, part: PartWriter) -> ChunkCommit:
        """Upload the files of a chunk and write its commit."""
        return await self._on_thread(lambda: self._commit_chunk(chunk, part))

    async def finish(self, counts: Counts) -> CommittedRun:
        """Write the manifest. If the call is cancelled, the request that is under way decides, or what is found before."""
        commit = asyncio.ensure_future(self._on_thread(lambda: self._store_manifest(counts)))
        try:
            return await asyncio.shield(commit)
        except asyncio.CancelledError:
            with suppress(OutputError):
                if run := await self._on_thread(self._read_manifest):
                    return run
            return await commit

    async def claim(self, claim: Claim) -> bool:
        """Write a claim."""
        key, document = self._key(f"claims/{claim_name(claim)}"), ClaimDocument(owner=claim.owner)
        return await self._on_thread(lambda: self._bucket.create(key, document.text()))

    async def report(self, member: Member) -> None:
        """Replace the Pod's sign of life."""
        await self._on_thread(lambda: self._store_member(member))

    async def survey(self) -> Survey:
        """List the commits, the claims and the signs of life, and read what has changed."""
        return await self._on_thread(self._read_survey)

    async def read_commits(self) -> Mapping[int, ChunkCommit]:
        """Read the commits that are not known yet."""
        return await self._on_thread(self._read_new_commits)

    async def find_commit(self) -> CommittedRun | None:
        """Read the manifest."""
        return await self._on_thread(self._read_commit)

    async def abort(self) -> CommittedRun | None:
        """Write a document in place of the manifest, unless an attempt has written the manifest."""
        return await self._on_thread(self._store_abort)

    async def probe(self) -> str:
        """Verify that conditional writes work, with an object that is deleted."""
        await self._on_thread(self._probe)
        return f"output.s3 {self._location}"

    async def earlier_results(self, run: RetriedRun) -> EarlierResults | None:
        """Read the objects of an ended run beside those of this run."""
        location = f"s3://{self._spec.bucket}/{self._spec.path.rstrip('/')}/{Path(run.job_name).name}"
        return await self._on_thread(
            lambda: read_earlier(self._bucket, self._spec.path, run, record_format=self._format, location=location)
        )

    def close(self) -> None:
        """Delete the spooled files."""
        for part in self._parts.values():
            part.discard()
        shutil.rmtree(self._spool, ignore_errors=True)

    async def _on_thread(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            raise OutputError(
                f"cannot spool the predictions to {self._spool.parent}: {error.strerror}; the Pod needs enough ephemeral "
                "storage for a chunk"
            ) from error
        except ValidationError as error:
            raise OutputError(
                f"output.s3: {self._location} contains an object that this runner did not write; remove it"
            ) from error

    def _key(self, name: str) -> str:
        return f"{self._prefix}/{name}"

    def _read_checkpoint(self) -> Checkpoint:
        if run := self._read_manifest():
            return Checkpoint(committed_run=run)
        stored = self._read_plan()
        if stored is None:
            self._probe()
            return Checkpoint()
        return Checkpoint(plan=stored.plan(), committed=self._read_new_commits())

    def _read_new_commits(self) -> dict[int, ChunkCommit]:
        missing = sorted(self._committed_chunks() - self._commits.keys())
        with ThreadPoolExecutor(_READS_AT_A_TIME) as pool:
            for document in pool.map(lambda chunk: self._read_commit_of(self._commit_key(chunk)), missing):
                self._commits[document.chunk] = document
        return {chunk: document.commit(won=False) for chunk, document in self._commits.items()}

    def _committed_chunks(self) -> frozenset[int]:
        listed = self._bucket.list_below(self._key("commits/"))
        return committed_chunks(PurePosixPath(one.key).name for one in listed)

    def _commit_key(self, chunk: int) -> str:
        return self._key(f"commits/{chunk:06}.json")

    def _store_member(self, member: Member) -> None:
        key = self._key(f"members/{Path(member.name).name}.json")
        if member.has_ended and self._bucket.head(self._key("manifest.json")) is not None:
            return
        self._bucket.replace(key, member_document_of(member).text())

    def _read_survey(self) -> Survey:
        if self._read_manifest() is not None:
            self._delete_shared()  # something may have been written since they were deleted
            return Survey(is_run_committed=True)
        listed = {PurePosixPath(one.key).name: one for one in self._bucket.list_below(self._key("claims/"))}
        members = [self._read_shared(one) for one in self._bucket.list_below(self._key("members/"))]
        committed = self._committed_chunks()  # last: the claim of a chunk that is already committed does not matter
        claims = {
            chunk: claim_of(name, content)
            for chunk, name in latest_claims(listed).items()
            if chunk not in committed and (content := self._read_shared(listed[name]))
        }
        documents = [MemberDocument.model_validate_json(content) for content in members if content]
        return Survey(
            committed=committed, claims=claims, members={document.name: document.member() for document in documents}
        )

    def _read_shared(self, stored: StoredObject) -> bytes:
        """Read a claim or a sign of life, unless it is known and has not changed; empty if it was deleted."""
        etag, content = self._shared.get(stored.key, ("", b""))
        if not etag or etag != stored.etag:
            content = self._bucket.read(stored.key) or b""
            self._shared[stored.key] = stored.etag, content
        return content

    def _probe(self) -> None:
        """Verify that a conditional write is rejected if the key exists: old servers ignore the condition."""
        key = self._key(f"probe-{self._attempt}")
        try:
            if not self._bucket.create(key, _PROBE) or self._bucket.create(key, _PROBE[1:]):
                raise OutputError(
                    f"output.s3: the server of {self._location} does not support conditional writes (If-None-Match), so chunks "
                    "cannot be committed exactly once; use another server, or the file label",
                    is_retryable=False,
                )
        finally:
            self._bucket.delete([key])

    def _store_plan(self, plan: InputPlan) -> InputPlan:
        self._bucket.create(self._key("run.json"), document_of(plan, self._contract).text())
        stored = self._read_plan()
        if stored is None:
            raise OutputError(f"output.s3: {self._location}/run.json was deleted; do not modify the run's objects")
        return stored.plan()

    def _read_plan(self) -> RunDocument | None:
        content = self._bucket.read(self._key("run.json"))
        if content is None:
            return None
        document = RunDocument.model_validate_json(content)
        self._run_folder.check_owner(document.run_id)
        return document

    def _commit_chunk(self, chunk: Chunk, part: PartWriter) -> ChunkCommit:
        key = self._commit_key(chunk.index)
        name = f"part-{chunk.index:06}-{chunk.first:012}-{self._attempt}"
        document = chunk_document_of(
            chunk, part.finish(), name=name, suffix=self._format.results_suffix, attempt=self._attempt
        )
        won = self._bucket.head(key) is None and self._upload_chunk(document, key)
        part.discard()
        del self._parts[chunk.index]
        self._commits[chunk.index] = document if won else self._read_commit_of(key)
        return self._commits[chunk.index].commit(won=won)

    def _upload_chunk(self, document: ChunkDocument, key: str) -> bool:
        """Upload the files of a chunk and write its commit; False if another attempt wrote one in the meantime."""
        draft = self._spool / f"{document.chunk:06}{self._format.results_suffix}"
        uploads = [(self._key(document.part.file), draft)]
        if document.part.errors:
            uploads.append((self._key(document.part.errors.file), self._spool / f"{document.chunk:06}{ERRORS_DRAFT}"))
        for target, path in uploads:
            self._bucket.upload(target, path)
        if self._bucket.create(key, document.text()):
            return True
        self._bucket.delete([target for target, _ in uploads])
        return False

    def _read_commit_of(self, key: str) -> ChunkDocument:
        content = self._bucket.read(key)
        if content is None:
            raise OutputError(f"output.s3: {key} was deleted; do not modify the run's objects")
        return ChunkDocument.model_validate_json(content)

    def _store_manifest(self, counts: Counts) -> CommittedRun:
        if self._plan is None:
            raise AssertionError("finish was called before begin")
        if committed_run := self._read_manifest():
            return committed_run
        manifest = manifest_of(self._contract, self._plan, self._commits, counts)
        self._run_folder.check_complete(manifest, counts)
        self._bucket.create(self._key("manifest.json"), manifest.text())
        run = self._read_manifest()
        if run is None:
            raise OutputError(f"output.s3: {self._location}/manifest.json was deleted; do not modify the run's objects")
        self._delete_rest()
        return run

    def _delete_rest(self) -> None:
        """Delete what is not part of the output. A failure changes nothing about the committed run."""
        with suppress(OutputError, ValidationError):
            content = self._bucket.read(self._key("manifest.json")) or b""
            parts = Manifest.model_validate_json(content).parts
            files = {part.file for part in parts} | {part.errors.file for part in parts if part.errors}
            kept = {self._key(name) for name in files}
            found = self._keys_below("predictions/", "errors/")
            self._bucket.delete([key for key in found if key not in kept])
            self._delete_shared()

    def _delete_shared(self) -> None:
        self._bucket.delete(self._keys_below("claims/", "members/"))

    def _keys_below(self, *folders: str) -> list[str]:
        return [one.key for folder in folders for one in self._bucket.list_below(self._key(folder))]

    def _read_manifest(self) -> CommittedRun | None:
        content = self._bucket.read(self._key("manifest.json"))
        if content is None:
            return None
        return self._run_folder.committed_run(content)

    def _read_commit(self) -> CommittedRun | None:
        try:
            return self._read_manifest()
        except Aborted:
            return None

    def _store_abort(self) -> CommittedRun | None:
        self._bucket.create(self._key("manifest.json"), self._run_folder.abort().text())
        return self._read_commit()


@asynccontextmanager
async def open_output(spec: StorageObject, context: StoreContext) -> AsyncIterator[OutputStore]:
    """Open the label `s3` under `output`."""
    wanted = read_spec(spec, side="output")
    record_format = context.format_named(wanted.format, "output.s3.format")
    folder = context.endpoints_dir / "output"
    async with open_bucket(wanted, folder, context.limits, side="output", error=OutputError) as bucket:
        store = S3Output(wanted, bucket, record_format, context)
        try:
            yield store
        finally:
            store.close()
