"""The results of an ended run, for the run that completes them: which documents say what is kept.
Reads through its caller."""

from bisect import bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from pydantic import ValidationError

from inferrun.formats.saved_answers import SavedAnswer, load_answers
from inferrun.manifest import ENDED_RUN, Manifest, ManifestPart, StoredFile
from inferrun.plugins import InputPlan, OutputError, RecordFormat, RetriedRun, StoredResult
from inferrun_runner.stores.run_folder.documents import ChunkDocument, RunDocument
from inferrun_runner.stores.run_folder.results import OrderedRows


class EarlierRun:
    """The committed parts of an ended run."""

    def __init__(
        self,
        plan: InputPlan,
        parts: Iterable[ManifestPart],
        read: Callable[[ManifestPart, int, int], Iterable[StoredResult]],
        answers: Iterable[SavedAnswer] = (),
    ) -> None:
        """`read` yields the results of a part from one index up to another. It blocks, and raises
        OutputError. `answers` are those that were saved before their chunk was complete."""
        self.plan = plan
        self._parts = sorted((part for part in parts if part.records), key=lambda part: part.first)
        self._answers = {
            one.index: one
            for one in answers
            if self._part_with(one.index, one.index + 1) is None and one.index < plan.total
        }
        self.kept = sum(part.records - part.failed for part in self._parts) + len(self._answers)
        self._read = read

    def predictions(self, chunk: int) -> Mapping[int, bytes]:
        """Return the predictions of a chunk, and verify that they are as many as were committed."""
        wanted = self.plan.chunks[chunk]
        part = self._part_with(wanted.first, wanted.stop)
        if part is None:
            saved = map(self._answers.get, range(wanted.first, wanted.stop))
            return {one.index: one.prediction for one in saved if one is not None}
        rows = self._read(part, wanted.first, wanted.stop)
        found = {row.index: row.prediction for row in rows if row.prediction}
        if part.records == wanted.records:
            self._check(part, len(found))
        return found

    def results(self) -> Iterator[StoredResult]:
        """Yield the results of all parts, and verify each as above."""
        for part in self._parts:
            kept = 0
            for row in self._read(part, part.first, part.first + part.records):
                kept += bool(row.prediction)
                yield row
            self._check(part, kept)
        for one in self._answers.values():
            yield StoredResult(one.index, one.custom_id, prediction=one.prediction)

    def _part_with(self, first: int, stop: int) -> ManifestPart | None:
        at = bisect_right(self._parts, first, key=lambda part: part.first) - 1
        part = self._parts[at] if at >= 0 else None
        return part if part is not None and stop <= part.first + part.records else None

    def _check(self, part: ManifestPart, found: int) -> None:
        if found != part.records - part.failed:
            raise unusable(
                f"a chunk of that run has {found} predictions, {part.records - part.failed} were committed; its results were "
                "changed or deleted since"
            )


def earlier_run(
    run: RetriedRun,
    *,
    read: Callable[[str], bytes | None],
    copied: Callable[[StoredFile], Path | None],
    commits: Callable[[], Iterable[bytes]],
    answers: Callable[[], Iterable[bytes]],
    record_format: RecordFormat,
    location: str,
) -> EarlierRun | None:
    """Return what the run has committed, None if it has never begun. Raises OutputError.

    `read` returns a file of the run's folder, None if it does not exist; `copied` returns a copy of
    a larger one, None if it is not what was committed; `commits` and `answers`, which returns files
    of `inferrun.formats.saved_answers`, are used only if there is no manifest.
    """
    readable = record_format.abilities.readable
    if readable is None:
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
            parts, saved = list(ended.parts), []
        else:
            saved = [one for content in answers() for one in load_answers(content)]
            parts = [ChunkDocument.model_validate_json(one).part for one in commits()]
    except ValidationError as error:
        raise unusable(f"{location} contains a document that this runner did not write") from error
    if begun.run_id != run.run_id:
        raise unusable(f"{location} belongs to another run ({begun.run_id})")

    @contextmanager
    def opened(file: StoredFile) -> Iterator[BinaryIO]:
        if (copy := copied(file)) is None:
            raise unusable(
                f"{location}/{file.file} is missing or has changed since it was committed"
            )
        with copy.open("rb") as content:
            copy.unlink()
            yield content

    def rows_of(part: ManifestPart) -> Generator[StoredResult, None, None]:
        with ExitStack() as files:
            results = files.enter_context(opened(part))
            errors = files.enter_context(opened(part.errors)) if part.errors else None
            yield from readable.read(results, errors)

    rows = OrderedRows(rows_of)

    def read_rows(part: ManifestPart, first: int, stop: int) -> Iterator[StoredResult]:
        try:
            yield from rows.between(part, first, stop)
        except ValueError as error:
            raise unusable(f"{location}/{part.file}: {error}") from error

    return EarlierRun(plan, parts, read_rows, saved)


def unusable(why: str) -> OutputError:
    """Return the error of a run that cannot be completed."""
    return OutputError(f"retryOf: {why}", is_retryable=False)
