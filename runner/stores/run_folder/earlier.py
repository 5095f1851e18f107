"""The results of an ended run, for the run that completes them: which documents say what is kept. Reads through its caller."""

import hashlib
import io
from collections.abc import Callable, Iterable, Mapping

from pydantic import ValidationError

from inferrun.manifest import ENDED_RUN, Manifest, ManifestPart
from inferrun.plugins import InputPlan, OutputError, ReadableResults, RecordFormat, RetriedRun
from runner.stores.run_folder.documents import ChunkDocument, RunDocument


class EarlierRun:
    """The committed parts of an ended run."""

    def __init__(
        self, plan: InputPlan, parts: Mapping[int, ManifestPart], read: Callable[[ManifestPart], Mapping[int, bytes]]
    ) -> None:
        """`read` returns the predictions of a part. It blocks, and raises OutputError."""
        self.plan = plan
        self.kept = sum(part.records - part.failed for part in parts.values())
        self._parts = parts
        self._read = read

    def predictions(self, chunk: int) -> Mapping[int, bytes]:
        """Return the predictions of a chunk, and verify that they are as many as were committed."""
        part = self._parts.get(chunk)
        if part is None:
            return {}
        found, indexes = self._read(part), range(part.first, part.first + part.records)
        if len(found) != part.records - part.failed or not all(index in indexes for index in found):
            raise unusable(
                f"a chunk of that run has {len(found)} predictions, {part.records - part.failed} were committed; its results were "
                "changed or deleted since"
            )
        return found


def earlier_run(
    run: RetriedRun,
    *,
    read: Callable[[str], bytes | None],
    commits: Callable[[], Iterable[bytes]],
    record_format: RecordFormat,
    location: str,
) -> EarlierRun | None:
    """Return what the run has committed, None if it has never begun. Raises OutputError.

    `read` returns a file of the run's folder, None if it does not exist; `commits` is used only if there is no manifest.
    """
    if not isinstance(record_format, ReadableResults):
        raise unusable("results of this format cannot be read again; start a run without retryOf")
    manifest, stored = read("manifest.json"), read("run.json")
    if run.manifest_sha256 and manifest is None:
        raise unusable(f"{location}/manifest.json is missing, although that run has succeeded")
    if stored is None:
        return None
    try:
        begun = RunDocument.model_validate_json(stored)
        plan = begun.plan()
        ended = ENDED_RUN.validate_json(manifest) if manifest is not None else None
        if isinstance(ended, Manifest):
            chunk_at = {chunk.first: chunk.index for chunk in plan.chunks}
            parts = {chunk_at[part.first]: part for part in ended.parts if part.first in chunk_at}
        else:
            documents = map(ChunkDocument.model_validate_json, commits())
            parts = {document.chunk: document.part for document in documents}
    except ValidationError as error:
        raise unusable(f"{location} contains a document that this runner did not write") from error
    if begun.run_id != run.run_id:
        raise unusable(f"{location} belongs to another run ({begun.run_id})")

    def predictions_in(part: ManifestPart) -> Mapping[int, bytes]:
        content = read(part.file)
        if content is None or hashlib.sha256(content).hexdigest() != part.sha256:
            raise unusable(f"{location}/{part.file} is missing or has changed since it was committed")
        try:
            rows = record_format.read_results(io.BytesIO(content))
            return {row.index: row.prediction for row in rows if row.error is None}
        except ValueError as error:
            raise unusable(f"{location}/{part.file}: {error}") from error

    return EarlierRun(plan, parts, predictions_in)


def unusable(why: str) -> OutputError:
    """Return the error of a run that cannot be completed."""
    return OutputError(f"retryOf: {why}", is_retryable=False)
