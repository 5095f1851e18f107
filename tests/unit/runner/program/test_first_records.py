"""The records that are checked before the run begins."""

import random
import weakref
from collections.abc import Iterator
from typing import ClassVar

from inferrun.plugins import Batch, Block, Checkpoint, Chunk, Contract, JsonRecords, Results
from runner.program.execution import _predict
from runner.settings import Settings
from tests.unit.runner.flow.test_pipeline import RECORDS, Numbers, Recorder


class Texts(list[bytes]):
    """A list that can be observed."""


class Peekable(Numbers):
    """An input of which the texts that were read first are observed."""

    first: "weakref.ref[Texts] | None" = None

    def first_chunk(self) -> Chunk | None:
        return self.all[0]

    def read(self, chunk: Chunk) -> Iterator[Block]:
        if self.first is not None:
            yield from super().read(chunk)
            return
        texts = Texts([b"[0]"])
        self.first = weakref.ref(texts)
        yield Block(JsonRecords(texts))


class Model:
    """Notes whether the first texts are in memory while it predicts."""

    max_records: ClassVar[int | None] = None

    def __init__(self, source: Peekable) -> None:
        self._source = source
        self.held: set[bool] = set()

    async def prepare(self) -> None:
        return

    async def predict(self, batch: Batch) -> Results:
        self.held.add(self._source.first is not None and self._source.first() is not None)
        return Results(batch.records)


async def test_the_memory_of_the_first_records_is_free_during_the_run() -> None:
    source = Peekable(random.Random(1))  # noqa: S311  not for security
    model, contract = Model(source), Contract(job_id="uid", job_name="inf-a")
    run = await _predict(
        source, model, Recorder(), Checkpoint(), contract=contract, settings=Settings(), report=lambda _: None
    )
    assert run.completed == RECORDS
    assert model.held == {False}
