"""The results of an ended run, for the run that completes them: which documents say what is kept. Reads through its caller."""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from inferrun.manifest import ENDED_RUN, Manifest, ManifestPart, StoredFile
from inferrun.plugins import Chunk, InputPlan, OutputError, ReadableResults, RecordFormat, RetriedRun, StoredResult
from runner.stores.run_folder.documents import ChunkDocument, RunDocument
from runner.stores.run_folder.results import OrderedRows


class EarlierRun:
    """The committed parts of an ended run."""

    def __init__(
        self,
        plan: InputPlan,
        parts: Iterable[ManifestPart],
        read: Callable[[ManifestPart, Chunk], Mapping[int, bytes]],
    ) -> None:
        """`read` returns the predictions of a chunk in a part. It blocks, and raises OutputError."""
        self.plan = plan
        self._parts = sorted((part for part in parts if part.records), key=lambda part: part.first)
        self.kept = sum(part.records - part.failed for part in self._parts)
        self._read = read

    def predictions(self, chunk: int) -> Mapping[int, bytes]:
        """Return the predictions of a chunk, and verify that they are as many as were committed."""
        wanted = self.plan.chunks[chunk]
        at = bisect_right(self._parts, wanted.first, key=lambda part: part.first) - 1
        if at < 0 or wanted.stop > self._parts[at].first + self._parts[at].records:
            return {}
        part = self._parts[at]
        found = self._read(part, wanted)
        if part.records == wanted.records and len(found) != part.records - part.failed:
            raise unusable(
                f"a chunk of that run has {len(found)} predictions, {part.records - part.failed} were committed; its results were "
                "changed or deleted since"
            )
        return found


def earlier_run(
    run: RetriedRun,
    *,
    read: Callable[[str], bytes | None],
    copied: Callable[[StoredFile], Path | None],
    commits: Callable[[], Iterable[bytes]],
    record_format: RecordFormat,
    location: str,
) -> EarlierRun | None:
    """Return what the run has committed, None if it has never begun. Raises OutputError.

    `read` returns a file of the run's folder, None if it does not exist; `copied` returns a copy of a larger one, None if it is not
    what was committed; `commits` is used only if there is no manifest.
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
            parts = list(ended.parts)
        else:
            parts = [ChunkDocument.model_validate_json(one).part for one in commits()]
    except ValidationError as error:
        raise unusable(f"{location} contains a document that this runner did not write") from error
    if begun.run_id != run.run_id:
        raise unusable(f"{location} belongs to another run ({begun.run_id})")

    def rows_of(part: ManifestPart) -> Generator[StoredResult, None, None]:
        if (copy := copied(part)) is None:
            raise unusable(f"{location}/{part.file} is missing or has changed since it was committed")
        with copy.open("rb") as content:
            copy.unlink()
            yield from record_format.read_results(content)

    rows = OrderedRows(rows_of)

    def predictions_in(part: ManifestPart, chunk: Chunk) -> Mapping[int, bytes]:
        try:
            found = rows.between(part, chunk.first, chunk.stop)
            return {row.index: row.prediction for row in found if row.error is None}
        except ValueError as error:
            raise unusable(f"{location}/{part.file}: {error}") from error

    return EarlierRun(plan, parts, predictions_in)


def unusable(why: str) -> OutputError:
    """Return the error of a run that cannot be completed."""
    return OutputError(f"retryOf: {why}", is_retryable=False)
