"""Every kind of column through every reader and writer, in every way: no value becomes another
one."""

from collections.abc import AsyncIterator
from pathlib import Path

import duckdb
import pytest

from tests.integration.runner.kinds import KINDS
from tests.integration.runner.postgres_server import Postgres
from tests.integration.runner.value_table import READERS, WRITERS, Lab, echo_server, outcomes_of

QUICK = {("parquet", "parquet"), ("parquet", "jsonl"), ("jsonl", "csv"), ("sql", "sql")}
"""Each format once as input and as output: `make test` runs these."""


@pytest.fixture
async def lab(tmp_path: Path, postgres: Postgres) -> AsyncIterator[Lab]:
    judge = duckdb.connect()
    judge.execute("set TimeZone = 'UTC'")
    async with echo_server() as echo:
        yield Lab(tmp_path, echo, postgres, judge)


@pytest.mark.parametrize(
    ("reader", "writer"),
    [
        pytest.param(
            reader, writer, marks=[] if (reader, writer) in QUICK else pytest.mark.thorough
        )
        for reader in READERS
        for writer in WRITERS
    ],
)
async def test_no_value_becomes_another_one(lab: Lab, reader: str, writer: str) -> None:
    changed: list[str] = []
    equal = 0
    for kind in KINDS:
        for way, outcome in (await outcomes_of(lab, kind, reader, writer)).items():
            equal += outcome.equal
            changed += [f"{kind.name}, {way}: {text}" for text in outcome.changed]
    assert not changed
    assert equal > 100
