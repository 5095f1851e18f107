"""Answers of earlier attempts are read if they can be of use, and a run goes on without them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from inferrun.contract import Contract, RetriedRun
from inferrun.formats.record_keys import record_keys
from inferrun.plugins import (
    Block,
    Chunk,
    EarlierResults,
    InputPlan,
    JsonRecords,
    OutputError,
    Records,
    StoreAbilities,
)
from inferrun_runner.program.known_answers import known_answers
from inferrun_runner.settings import Settings

PLAN = InputPlan("f", (Chunk(0, 0, 0, 2, 0, 2),))


class Input:
    def read(self, _: Chunk) -> Iterator[Block]:
        yield Block(JsonRecords([b"[1]", b"[2]"]))


class Output:
    """Cannot read its results again."""

    def __init__(self) -> None:
        self.asked = 0

    @property
    def abilities(self) -> StoreAbilities:
        return StoreAbilities(earlier_results=self.earlier_results)

    async def earlier_results(self, _: RetriedRun) -> EarlierResults | None:
        self.asked += 1
        raise OutputError("results of this format cannot be read again", is_retryable=False)


def no_keys(records: Records) -> Sequence[bytes | None]:
    return [None] * len(records)


async def asked(folder: Path, *, begun: InputPlan | None, keys_of: object = record_keys) -> int:
    output, contract = Output(), Contract(job_id="uid", job_name="inf-run")
    known = known_answers(
        keys_of,  # type: ignore[arg-type]
        Input(),  # type: ignore[arg-type]
        output,  # type: ignore[arg-type]
        begun,
        contract=contract,
        settings=Settings(spool_dir=folder),
    )
    async with known as answers:
        assert answers.held(next(iter(record_keys(JsonRecords([b"[1]"])))) or b"") is None
    return output.asked


async def test_a_run_goes_on_if_its_results_cannot_be_read_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert await asked(tmp_path, begun=PLAN) == 1
    assert "so some requests are sent again" in caplog.text


async def test_nothing_is_read_if_it_is_of_no_use(tmp_path: Path) -> None:
    assert await asked(tmp_path, begun=None) == 0
    assert await asked(tmp_path, begun=PLAN, keys_of=no_keys) == 0
