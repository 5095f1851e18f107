"""The results of an ended run, for the run that completes them: which documents say what is kept. Reads through its caller."""

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from inferrun.plugins import InputPlan, OutputError, ReadableResults, RecordFormat, RetriedRun
from runner.run_folder.documents import ENDED_RUN, ChunkDocument, Manifest, ManifestPart, RunDocument


@dataclass(frozen=True, slots=True)
class Documents:
    """What the folder of a run contains; None if a document does not exist. `commits` is read only if there is no manifest."""

    run: bytes | None
    manifest: bytes | None
    commits: Callable[[], Iterable[bytes]]


class EarlierRun:
    """The committed parts of an ended run."""

    def __init__(
        self,
        plan: InputPlan,
        parts: Mapping[int, ManifestPart],
        *,
        results: ReadableResults,
        read: Callable[[str], bytes | None],
        location: str,
    ) -> None:
        self.plan = plan
        self.kept = sum(part.records - part.failed for part in parts.values())
        self._parts = parts
        self._results = results
        self._read = read
        self._location = location

    def predictions(self, chunk: int) -> Mapping[int, bytes]:
        """Return the predictions of a chunk, and verify that they are what was committed."""
        part = self._parts.get(chunk)
        if part is None:
            return {}
        try:
            content = self._read(part.file)
        except OSError as error:
            raise _unusable(f"{self._location}/{part.file} cannot be read: {error.strerror}") from error
        if content is None or hashlib.sha256(content).hexdigest() != part.sha256:
            raise _unusable(f"{self._location}/{part.file} is missing or has changed since it was committed")
        try:
            found = self._results.read_results(content)
        except ValueError as error:
            raise _unusable(f"{self._location}/{part.file}: {error}") from error
        indexes = range(part.first, part.first + part.records)
        if len(found) != part.records - part.failed or not all(index in indexes for index in found):
            raise _unusable(f"{self._location}/{part.file} does not have the results that its commit names")
        return found


def earlier_run(
    documents: Documents,
    run: RetriedRun,
    *,
    record_format: RecordFormat,
    read: Callable[[str], bytes | None],
    location: str,
) -> EarlierRun | None:
    """Return what the run has committed, None if it has never begun. Raises OutputError."""
    if not isinstance(record_format, ReadableResults):
        raise _unusable("results of this format cannot be read again; start a run without retryOf")
    if run.manifest_sha256 and documents.manifest is None:
        raise _unusable(f"{location}/manifest.json is missing, although that run has succeeded")
    if documents.run is None:
        return None
    try:
        begun = RunDocument.model_validate_json(documents.run)
        parts = _parts(documents, begun)
    except ValidationError as error:
        raise _unusable(f"{location} contains a document that this runner did not write") from error
    if begun.run_id != run.run_id:
        raise _unusable(f"{location} belongs to another run ({begun.run_id})")
    return EarlierRun(begun.plan(), parts, results=record_format, read=read, location=location)


def _parts(documents: Documents, begun: RunDocument) -> dict[int, ManifestPart]:
    """The committed parts by chunk: those that the manifest lists; without one, those of the chunks' commits."""
    ended = ENDED_RUN.validate_json(documents.manifest) if documents.manifest is not None else None
    if isinstance(ended, Manifest):
        chunk_at = {chunk.first: chunk.index for chunk in begun.plan().chunks}
        return {chunk_at[part.first]: part for part in ended.parts if part.first in chunk_at}
    commits = [ChunkDocument.model_validate_json(content) for content in documents.commits()]
    return {commit.chunk: commit.part for commit in commits}


def _unusable(why: str) -> OutputError:
    return OutputError(f"retryOf: {why}", is_retryable=False)
