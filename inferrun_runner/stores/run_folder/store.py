"""The output of a run as files of a claim or objects of a bucket, committed under names that are
never replaced.

Files below `<path>/<jobName>/`:

    run.json                      identifies the run and its input plan; written first, once
    predictions/part-000000-000000000000-<attempt>.…
                                  results of a chunk: its number, the index of its first record
    errors/part-000000-000000000000-<attempt>.…
                                  its failed records, if there are any
    commits/000000.json           commits a chunk: names the files that belong to it; kept
    predictions/part-000000-000000000000-000017-<attempt>.…, errors/…
                                  the same of several chunks, up to that number, joined in one file
    merges/000000-000017.json     names these files; deleted when the run is committed
    predictions/dt=2026-11-23/…, errors/dt=…/…
                                  with `layout.partitions`: the same, in the folders of the input's
                                  files
    manifest.json                 commits the run; lists all files
    answers/<attempt>-000001      answers whose chunk is not committed yet; deleted with its commit
    claims/000000-000.json, members/<Pod>.json
                                  of a run with several Pods: which one predicts a chunk, and their
                                  signs of life; deleted when the run is committed
    probes/…                      of a bucket: whether one writer creates an object; deleted at once

Any number of Pods may execute the same run. Each stores files under names of its own; the first to
create the commit of a chunk wins, and only the winner's files are in the manifest. When the run is
committed, other files with results are deleted. So a late Pod, or one that was presumed dead,
changes nothing that is committed, and the next Pod continues with the chunks that are missing.

When all chunks are committed, their files are joined: `part_ranges` says which, by the sizes and
folders in the commits. Whoever joins the same ones later, after a kill or at the same time, finds
the first one's document. The files of the chunks stay until the manifest lists the others.
"""

import asyncio
import re
import shutil
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from inferrun.formats.dataset import partition_folder
from inferrun.manifest import ENDED_RUN, AbortedRun, Manifest, ManifestPart, StoredFile
from inferrun.plugins import (
    Checkpoint,
    Chunk,
    ChunkCommit,
    Claim,
    CommittedRun,
    ContractError,
    Counts,
    Delivery,
    EarlierResults,
    InputPlan,
    JoinFiles,
    Member,
    OutputError,
    RecordFormat,
    ResultOptions,
    RetriedRun,
    StoreAbilities,
    StoreContext,
    StoredPart,
    Survey,
)
from inferrun.stores import FOLDER_LABELS
from inferrun.stores.dataset import UNCOMPRESSED, FolderStorage
from inferrun_runner.stores.run_folder.documents import (
    MEMBER,
    ChunkDocument,
    RunDocument,
    chunk_document_of,
    document_of,
    manifest_of,
    run_id_of,
)
from inferrun_runner.stores.run_folder.earlier import earlier_run
from inferrun_runner.stores.run_folder.files import PROBES, RunFiles, copied
from inferrun_runner.stores.run_folder.layout import part_ranges
from inferrun_runner.stores.run_folder.merging import MergeStopped, StagedFile, merged
from inferrun_runner.stores.run_folder.spool import PartDraft, Spool, SpooledChunk

if TYPE_CHECKING:
    import pyarrow

_COMMIT_NAME: Final = re.compile(r"([0-9]{6,})\.json", re.ASCII)
_CLAIM_NAME: Final = re.compile(r"([0-9]{6,})-([0-9]{3,})\.json", re.ASCII)
"""Beside these files may be drafts, which Pods that died have left behind."""

_COMMITS_AT_A_TIME: Final = 8
_READS_AT_A_TIME: Final = 8
"""Commits that are read at a time: each is a small file, so the latency of the server counts."""


class Aborted(OutputError):
    """The run was aborted, and can never be committed."""

    def __init__(self, label: str, location: str) -> None:
        text = f"{label}: the run in {location} has failed and was aborted; start a new run"
        super().__init__(text, is_retryable=False)


class RunFolder:
    """The files of one run."""

    delivery: Delivery = "ExactlyOnce"

    def __init__(
        self,
        files: RunFiles,
        record_format: RecordFormat,
        context: StoreContext,
        spec: FolderStorage,
        *,
        label: str,
    ) -> None:
        """`label`: the field of the contract, such as `output.file`."""
        self._files = files
        self._format = _compressed(
            record_format, spec.layout.compression, field=f"{label}.layout.compression"
        )
        self._typed = (
            ResultOptions(label, spec.types, spec.flatten)
            if record_format.abilities.has_typed_results
            else None
        )
        suffix = record_format.results_suffix
        self._suffixes = {"suffix": suffix, "errors_suffix": suffix if self._typed else ".jsonl"}
        self._schema: pyarrow.Schema | None = None
        self._layout = spec.layout
        self._is_partitioned = spec.layout.partitions == "Input"
        if self._is_partitioned and (
            other := next(iter(context.contract.input.keys() - {*FOLDER_LABELS}), "")
        ):
            text = f"{label}.layout.partitions: an input of the label {other} has no partitions; remove the field"
            raise ContractError(text)
        self._is_stopped = threading.Event()
        self._contract = context.contract
        self._label = label
        self._root = spec.root
        self._path = spec.path.rstrip("/")
        self._folder = self._folder_of(context.contract.job_name or run_id_of(context.contract))
        self._location = f"{spec.root}/{self._folder}"
        self._spool = Spool(
            context,
            foreign=f"{label}: {self._location} contains a file that this runner did not write; remove it",
            commits_at_a_time=_COMMITS_AT_A_TIME,
        )
        self._plan: InputPlan | None = None
        self._commits: dict[int, ChunkDocument] = {}
        self._claims: dict[str, bytes] = {}
        self._saved = 0

    @property
    def abilities(self) -> StoreAbilities:
        """All of them."""
        return StoreAbilities(
            commits_at_a_time=_COMMITS_AT_A_TIME,
            stores_copied=True,
            typed=self._typed,
            find_commit=self.find_commit,
            abort=self.abort,
            answers=self,
            shared=self,
            committed_parts=self.committed_parts,
            probe=self.probe,
            earlier_results=self.earlier_results,
        )

    async def open(self) -> Checkpoint:
        """Read what is committed, and check the place if this is the first attempt."""
        return await self._spool.on_thread(self._read_checkpoint)

    async def begin(self, plan: InputPlan) -> InputPlan:
        """Store the plan unless another attempt did."""
        self._plan = await self._spool.on_thread(lambda: self._store_plan(plan))
        if self._typed:
            self._schema = self._schema_of(self._plan)
        return self._plan

    def writer(self, chunk: Chunk) -> SpooledChunk:
        """Return the writer of a chunk."""
        schema = self._schema
        writer = (
            self._format.writer if schema is None else partial(self._format.writer, schema=schema)
        )
        return SpooledChunk(self._spool, chunk, writer, self._commit_chunk)

    async def finish(self, counts: Counts) -> CommittedRun:
        """Join files, and create the manifest. If the call is cancelled, joining ends; the request
        that is under way decides, or what is found before."""
        commit = asyncio.ensure_future(self._spool.on_thread(lambda: self._store_manifest(counts)))
        try:
            return await asyncio.shield(commit)
        except asyncio.CancelledError:
            self._is_stopped.set()
            with suppress(OutputError):
                if run := await self._spool.on_thread(self._read_manifest):
                    return run
            with suppress(MergeStopped):
                return await commit
            raise

    async def find_commit(self) -> CommittedRun | None:
        """Read the manifest."""
        return await self._spool.on_thread(self._read_commit)

    async def abort(self) -> CommittedRun | None:
        """Create a document in place of the manifest, unless an attempt has created the
        manifest."""
        aborted = AbortedRun(run_id=run_id_of(self._contract), job_name=self._contract.job_name)

        def store_abort() -> CommittedRun | None:
            self._files.create(self._name("manifest.json"), aborted.text())
            return self._read_commit()

        return await self._spool.on_thread(store_abort)

    async def committed_parts(self) -> Sequence[StoredPart]:
        """Read the manifest."""

        def read_parts() -> list[StoredPart]:
            content = self._files.read(self._name("manifest.json"))
            if content is None or isinstance(
                manifest := ENDED_RUN.validate_json(content), AbortedRun
            ):
                raise OutputError(
                    f"{self._label}: the run in {self._location} is not committed",
                    is_retryable=False,
                )
            self._check_owner(manifest.run_id)
            folder = PurePosixPath(self._folder).name
            return [
                StoredPart(f"{folder}/{part.file}", part.bytes, part.records)
                for part in manifest.parts
            ]

        return await self._spool.on_thread(read_parts)

    async def claim(self, claim: Claim) -> bool:
        """Create a claim. Pods with the same intention write the same name."""
        name = self._name(f"claims/{claim.chunk:06}-{claim.generation:03}.json")
        return await self._spool.on_thread(lambda: self._files.create(name, claim.owner.encode()))

    async def report(self, member: Member) -> None:
        """Replace the Pod's sign of life."""
        name = self._name(f"members/{PurePosixPath(member.name).name}.json")

        def store_member() -> None:
            if not (member.has_ended and self._files.read(self._name("manifest.json"))):
                self._files.put(name, MEMBER.dump_json(member))

        await self._spool.on_thread(store_member)

    async def survey(self) -> Survey:
        """List the commits, the claims and the signs of life, and read what has changed."""
        return await self._spool.on_thread(self._read_survey)

    async def read_commits(self) -> Mapping[int, ChunkCommit]:
        """Read the commits that are not known yet."""
        return await self._spool.on_thread(self._read_new_commits)

    async def save_answers(self, content: bytes) -> str:
        """Store answers in a file of this attempt."""
        self._saved += 1
        name = self._name(f"answers/{self._spool.attempt}-{self._saved:06}")
        await self._spool.on_thread(lambda: self._files.put(name, content))
        return name

    async def read_answers(self) -> Mapping[str, bytes]:
        """Read the files of all attempts."""
        return await self._spool.on_thread(lambda: dict(self._read_answers(self._folder)))

    async def delete_answers(self, names: Sequence[str]) -> None:
        """Delete files."""
        await self._spool.on_thread(lambda: self._files.delete(names))

    async def probe(self) -> str:
        """Check the place."""
        await self._spool.on_thread(lambda: self._files.check(self._folder))
        return f"{self._label} {self._location}"

    async def earlier_results(self, run: RetriedRun) -> EarlierResults | None:
        """Read the folder of an ended run beside that of this run."""
        folder = self._folder_of(run.job_name)

        def read(name: str) -> bytes | None:
            return self._files.read(f"{folder}/{name}")

        def commits() -> Iterator[bytes]:
            for chunk in sorted(self._committed_chunks(folder)):
                if content := self._files.read(f"{folder}/{_commit_name(chunk)}"):
                    yield content

        return await self._spool.on_thread(
            lambda: earlier_run(
                run,
                read=read,
                copied=partial(self._copied, folder),
                commits=commits,
                answers=lambda: [content for _, content in self._read_answers(folder)],
                record_format=self._format,
                location=f"{self._root}/{folder}",
            )
        )

    def close(self) -> None:
        """Delete the spooled files."""
        self._spool.close()

    def _folder_of(self, run: str) -> str:
        return f"{self._path}/{PurePosixPath(run).name}"

    def _name(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _names_below(self, *folders: str) -> list[str]:
        return [one.name for folder in folders for one in self._files.list_below(folder)]

    def _read_checkpoint(self) -> Checkpoint:
        if run := self._read_manifest():
            # no part is written after the rest has been deleted
            self._spool.commits.shutdown(cancel_futures=True)
            self._delete_rest()  # another Pod may have written a part since the run was committed
            return Checkpoint(committed_run=run)
        stored = self._read_plan()
        if stored is None:
            self._files.check(self._folder)
            return Checkpoint()
        committed = self._read_new_commits()
        try:
            self._check_parts([document.part for document in self._commits.values()])
        except OutputError:
            if self._read_manifest() is None:
                raise
            # another Pod has committed the run meanwhile, and deleted what it joined
            return self._read_checkpoint()
        return Checkpoint(plan=stored, committed=committed)

    def _store_plan(self, plan: InputPlan) -> InputPlan:
        self._files.create(self._name("run.json"), document_of(plan, self._contract).text())
        stored = self._read_plan()
        if stored is None:
            raise self._deleted("run.json")
        return stored

    def _schema_of(self, plan: InputPlan) -> "pyarrow.Schema":
        from inferrun.formats.result_schema import ResultSchema  # noqa: PLC0415  only runs with tables import pyarrow

        if not plan.result_schema:
            text = f"{self._label}: the run in {self._location} was begun by an older version or in another format; start a new one"
            raise OutputError(text, is_retryable=False)
        return ResultSchema.deserialized(plan.result_schema).arrow

    def _read_plan(self) -> InputPlan | None:
        content = self._files.read(self._name("run.json"))
        if content is None:
            return None
        document = RunDocument.model_validate_json(content)
        self._check_owner(document.run_id)
        return document.plan()

    def _commit_chunk(self, draft: PartDraft) -> ChunkCommit:
        chunk, attempt = draft.chunk, self._spool.attempt
        folder = (
            partition_folder(self._plan.objects[chunk.unit].name)
            if self._plan and self._is_partitioned
            else ""
        )
        name = f"{folder}part-{chunk.index:06}-{chunk.first:012}-{attempt}"
        own = chunk_document_of(draft, name=name, attempt=attempt, **self._suffixes)
        committed = self._publish(own, draft, commit=_commit_name(chunk.index))
        self._commits[chunk.index] = committed
        if committed is own and self._format.abilities.join_files:
            self._spool.keep(own.part.file, draft.results)
        return committed.commit(won=committed is own)

    def _publish(self, own: ChunkDocument, draft: PartDraft, *, commit: str) -> ChunkDocument:
        """Store files and the document that names them; if another attempt already did, delete them
        and return its document."""
        files = {self._name(own.part.file): draft.results.path}
        if own.part.errors and draft.errors:
            files[self._name(own.part.errors.file)] = draft.errors.path
        for target, path in files.items():
            self._files.put(target, path)
        if self._files.create(self._name(commit), own.text()):
            return own
        self._files.delete(list(files))
        return self._read_document(commit)

    def _read_answers(self, folder: str) -> Iterator[tuple[str, bytes]]:
        for name in self._names_below(f"{folder}/answers/"):
            if not PurePosixPath(name).name.startswith(".") and (content := self._files.read(name)):
                yield name, content

    def _read_document(self, name: str) -> ChunkDocument:
        content = self._files.read(self._name(name))
        if content is None:
            raise self._deleted(name)
        return ChunkDocument.model_validate_json(content)

    def _read_new_commits(self) -> dict[int, ChunkCommit]:
        missing = sorted(self._committed_chunks(self._folder) - self._commits.keys())
        with ThreadPoolExecutor(_READS_AT_A_TIME) as pool:
            for document in pool.map(self._read_document, map(_commit_name, missing)):
                self._commits[document.chunk] = document
        return {chunk: document.commit(won=False) for chunk, document in self._commits.items()}

    def _committed_chunks(self, folder: str) -> frozenset[int]:
        names = (PurePosixPath(name).name for name in self._names_below(f"{folder}/commits/"))
        return frozenset(int(match[1]) for name in names if (match := _COMMIT_NAME.fullmatch(name)))

    def _read_survey(self) -> Survey:
        if self._read_manifest() is not None:
            self._delete_shared()  # something may have been written since they were deleted
            return Survey(is_run_committed=True)
        latest: dict[int, tuple[int, str]] = {}
        for name in self._names_below(self._name("claims/")):
            if match := _CLAIM_NAME.fullmatch(PurePosixPath(name).name):
                chunk, generation = int(match[1]), int(match[2])
                latest[chunk] = max(latest.get(chunk, (-1, "")), (generation, name))
        members = [
            MEMBER.validate_json(content)
            for name in self._names_below(self._name("members/"))
            if not PurePosixPath(name).name.startswith(".") and (content := self._files.read(name))
        ]
        # Last: the claim of a chunk that is already committed does not matter.
        committed = self._committed_chunks(self._folder)
        claims: dict[int, Claim] = {}
        for chunk, (generation, name) in latest.items():
            if chunk not in committed and (
                owner := self._claims.get(name) or self._files.read(name)
            ):
                self._claims[name] = owner  # a claim never changes
                claims[chunk] = Claim(chunk, generation, owner.decode(errors="replace"))
        return Survey(
            committed=committed, claims=claims, members={member.name: member for member in members}
        )

    def _store_manifest(self, counts: Counts) -> CommittedRun:
        if self._plan is None:
            raise AssertionError("finish was called before begin")
        if committed_run := self._read_manifest():
            return committed_run
        commits = [self._commits[chunk] for chunk in sorted(self._commits)]
        stored = sum(one.part.records for one in commits)
        failed = sum(one.part.failed for one in commits)
        if (stored, failed) != (counts.completed + counts.failed, counts.failed):
            raise OutputError(
                f"{self._label}: {self._location} contains {stored} results with {failed} errors, expected {counts.total} with "
                f"{counts.failed}; the run was not committed; do not modify its files during a run"
            )
        try:
            manifest = manifest_of(self._contract, self._plan, self._joined(commits), counts)
            self._check_parts(manifest.parts)
            self._files.create(self._name("manifest.json"), manifest.text())
        except OutputError:
            # of another Pod, which then deletes what was to be joined
            if not (run := self._read_manifest()):
                raise
        else:
            run = self._read_manifest()
            if run is None:
                raise self._deleted("manifest.json")
        self._delete_rest()
        return run

    def _joined(self, commits: Sequence[ChunkDocument]) -> list[ChunkDocument]:
        """Return the documents of the files that the manifest is to list."""
        join_files = self._format.abilities.join_files
        if join_files is None:
            return list(commits)
        ranges = part_ranges([one.part for one in commits], self._layout)
        return [self._join(commits[one.start : one.stop], join_files) for one in ranges]

    def _join(self, chunks: Sequence[ChunkDocument], join_files: JoinFiles) -> ChunkDocument:
        first, last, attempt = chunks[0], chunks[-1].chunk, self._spool.attempt
        if first.chunk == last:
            return first
        commit = f"merges/{first.chunk:06}-{last:06}.json"
        if content := self._files.read(self._name(commit)):
            return ChunkDocument.model_validate_json(content)
        files = [file for one in chunks for file in (one.part, one.part.errors) if file]
        folder = self._spool.folder / "copies"
        copies = dict[str, StagedFile]()
        try:
            # no chunk is being committed any more
            copied = self._spool.commits.map(self._copy, files)
            copies.update((copy.name, copy) for copy in copied)
            draft = merged(
                chunks,
                folder,
                join_files,
                schema=self._schema,
                copy_of=lambda file: copies[file.file],
            )
            _, *partition, _ = PurePosixPath(first.part.file).parts
            name = PurePosixPath(
                *partition, f"part-{first.chunk:06}-{first.part.first:012}-{last:06}-{attempt}"
            )
            own = chunk_document_of(draft, name=str(name), attempt=attempt, **self._suffixes)
            return self._publish(own, draft, commit=commit)
        finally:
            for copy in copies.values():
                copy.path.unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)

    def _copy(self, file: StoredFile) -> StagedFile:
        copy = self._spool.taken(file.file) or self._copied(self._folder, file)
        if copy is None:
            raise self._changed(file)
        return StagedFile(file.file, file.bytes, copy, self._is_stopped)

    def _copied(self, folder: str, file: StoredFile) -> Path | None:
        if self._is_stopped.is_set():
            raise MergeStopped
        return copied(self._files, folder, file, self._spool.folder / "copies")

    def _check_parts(self, parts: Sequence[ManifestPart]) -> None:
        sizes = {one.name: one.size for one in self._files.list_below(self._name("predictions/"))}
        for part in parts:
            if sizes.get(self._name(part.file)) != part.bytes:
                raise self._changed(part)

    def _delete_rest(self) -> None:
        """Delete what is not part of the output. A failure changes nothing about the committed
        run."""
        with suppress(OutputError, ValidationError):
            parts = Manifest.model_validate_json(
                self._files.read(self._name("manifest.json")) or b""
            ).parts
            files = {part.file for part in parts} | {
                part.errors.file for part in parts if part.errors
            }
            kept = {self._name(file) for file in files}
            found = self._names_below(self._name("predictions/"), self._name("errors/"))
            self._files.delete([name for name in found if name not in kept])
            self._delete_shared()

    def _delete_shared(self) -> None:
        shared = ("answers/", "claims/", "members/", "merges/", PROBES)
        self._files.delete(self._names_below(*map(self._name, shared)))

    def _read_manifest(self) -> CommittedRun | None:
        """Return the committed run. Raises Aborted, and OutputError if it is another run."""
        content = self._files.read(self._name("manifest.json"))
        if content is None:
            return None
        document = ENDED_RUN.validate_json(content)
        self._check_owner(document.run_id)
        if isinstance(document, AbortedRun):
            raise Aborted(self._label, self._location)
        manifest = f"{self._location}/manifest.json"
        return document.committed_run(location=self._location, manifest=manifest, content=content)

    def _read_commit(self) -> CommittedRun | None:
        with suppress(Aborted):
            return self._read_manifest()
        return None

    def _check_owner(self, run_id: str) -> None:
        if run_id != run_id_of(self._contract):
            raise OutputError(
                f"{self._label}: {self._location} belongs to another run ({run_id}); use another output path"
            )

    def _changed(self, file: StoredFile) -> OutputError:
        return OutputError(
            f"{self._label}: {self._location}/{file.file} is missing or has changed since it was committed; start a new run, and "
            "do not modify its folder"
        )

    def _deleted(self, name: str) -> OutputError:
        return OutputError(
            f"{self._label}: {self._location}/{name} was deleted; do not modify the folder during a run"
        )


def _compressed(record_format: RecordFormat, name: str | None, *, field: str) -> RecordFormat:
    if not name:
        return record_format
    with_compression = record_format.abilities.with_compression
    if with_compression is None:
        raise ContractError(f"{field}: {UNCOMPRESSED}")
    try:
        return with_compression(name)
    except ValueError as error:
        raise ContractError(f"{field}: {error}") from error


def _commit_name(chunk: int) -> str:
    return f"commits/{chunk:06}.json"
