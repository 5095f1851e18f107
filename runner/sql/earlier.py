"""The results of an ended run in a table, for the run that completes them. The caller reads, in transactions."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from pydantic import ValidationError

from inferrun.plugins import InputPlan, OutputError
from runner.run_folder.documents import ChunkDocument, RunDocument

Rows: TypeAlias = Sequence[tuple[int, str]]
"""Indexes and predictions."""


class EarlierRows:
    """The predictions of an ended run."""

    def __init__(
        self, plan: InputPlan, chunks: Mapping[int, ChunkDocument], *, read: Callable[[int, int], Rows]
    ) -> None:
        self.plan = plan
        self.kept = sum(one.part.records - one.part.failed for one in chunks.values())
        self._chunks = chunks
        self._read = read

    def predictions(self, chunk: int) -> Mapping[int, bytes]:
        """Return the predictions of a chunk, and verify that they are as many as were committed."""
        document = self._chunks.get(chunk)
        if document is None:
            return {}
        part = document.part
        found = {index: text.encode() for index, text in self._read(part.first, part.first + part.records)}
        if len(found) != part.records - part.failed:
            raise OutputError(
                f"retryOf: the table has {len(found)} predictions of a chunk for which {part.records - part.failed} were "
                "committed; its rows were changed or deleted since",
                is_retryable=False,
            )
        return found


def earlier_rows(plan: str | None, chunks: Sequence[str], *, read: Callable[[int, int], Rows]) -> EarlierRows | None:
    """Return what a run has committed, None if it has never begun. Raises OutputError."""
    if plan is None:
        return None
    try:
        begun = RunDocument.model_validate_json(plan)
        documents = [ChunkDocument.model_validate_json(one) for one in chunks]
    except ValidationError as error:
        raise OutputError("retryOf: a row of that run was not written by this runner", is_retryable=False) from error
    return EarlierRows(begun.plan(), {one.chunk: one for one in documents}, read=read)
