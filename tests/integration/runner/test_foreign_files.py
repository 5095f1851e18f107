"""Files that other software wrote, to results in each format: every value is the one that this software itself reads.

Each table in `tests/foreign/<software>/files` that `expected.json` has rows of is read, and all of its columns are copied. What may
differ is in `differences.json` beside it: `{"<file>": {"<column>": "<a part of the message>"}}`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyarrow import dataset

from tests.foreign.software import Rows, all_software, files_of, readings_of, root
from tests.foreign.values import canonical, plain
from tests.integration.runner.openai_server import OpenAiServer
from tests.integration.runner.pods import Machine

READ: Final = {".parquet": "parquet", ".arrow": "arrow", ".feather": "arrow", ".orc": "orc", ".jsonl": "jsonl"}
NOT_IN_JSON: Final = ("nan", "inf", "-inf")
"""As `canonical` has them."""

RESULTS: Final = ("arrow", "parquet", "jsonl")


@dataclass(frozen=True, slots=True)
class Table:
    """A file of a software, or a folder of files."""

    software: str
    name: str

    @property
    def input(self) -> dict[str, Any]:  # Any: JSON
        """The storage object of the input."""
        return {"file": {"claimName": "given", "path": self.name, "format": READ[Path(self.name).suffix]}}

    @property
    def rows(self) -> Rows:
        """What the software reads."""
        return readings_of(self.software)[self.name]

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    @property
    def differences(self) -> dict[str, str]:
        """What the run says of columns that it does not read."""
        path = root() / self.software / "differences.json"
        found: dict[str, str] = json.loads(path.read_text()).get(self.name, {}) if path.exists() else {}
        return found


def tables() -> list[Table]:
    """Return all tables."""
    return [
        Table(one.name, name)
        for one in all_software()
        if (one.folder / "expected.json").exists()
        for name, rows in readings_of(one.name).items()
        if Path(name).suffix in READ and isinstance(rows, list) and rows
    ]


@dataclass(frozen=True, slots=True)
class Copies:
    """Runs that copy columns; the model's answers do not matter."""

    folder: Path
    llm: OpenAiServer

    async def of(self, table: Table, columns: Sequence[str], *, to: str) -> tuple[str, Path]:
        """Run it, and return its message and the folder of its results."""
        contract = {
            "jobId": "uid",
            "jobName": "inf-copied",
            "kserve": {"modelUrl": self.llm.url, "modelName": "tiny", "protocolVersion": "openai"},
            "request": {"prompt": "any"},
            "passThroughColumns": [name for name in columns if name != "custom_id"],
            "input": table.input,
            "output": {"file": {"claimName": "made", "path": "out", "format": to}},
        }
        if any(set(columns) - set(row) for row in table.rows):
            contract["input"]["file"]["missingColumns"] = "Null"  # type: ignore[index]  # JSON
        machine = Machine(self.folder / f"{to}-{len(list(self.folder.iterdir()))}", contract=contract)
        machine.input.rmdir()
        machine.input.symlink_to(files_of(table.software))
        return (await machine.pod()).message, machine.run_folder / "predictions"


@pytest.mark.parametrize("table", tables(), ids=lambda one: f"{one.software}/{one.name}")
async def test_every_value_is_the_one_that_its_writer_reads(table: Table, tmp_path: Path, llm: OpenAiServer) -> None:
    copies, differences, kinds, wrong = Copies(tmp_path, llm), table.differences, pa.schema([]), list[str]()
    columns = [name for name in table.columns if name not in differences]
    for form in RESULTS if columns else ():
        message, folder = await copies.of(table, columns, to=form)
        assert message == f"{len(table.rows)} of {len(table.rows)} records predicted"
        if form == "jsonl":
            got = [json.loads(line) for path in sorted(folder.iterdir()) for line in path.read_bytes().splitlines()]
        else:
            stored = dataset.dataset(folder, format="ipc" if form == "arrow" else form).to_table()
            kinds = stored.schema
            values = {name: plain(stored.column(name)) for name in ("index", *columns)}
            got = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
        got.sort(key=lambda row: row["index"])
        for name in columns:
            kind = kinds.field(name).type
            for at, (row, found) in enumerate(zip(table.rows, got, strict=True)):
                if difference := difference_of(row.get(name), found.get(name), kind, is_json=form == "jsonl"):
                    wrong.append(f"{form}, row {at}, column {name} ({kind}): {difference}")
    assert not wrong, "\n".join(wrong)
    for name, said in differences.items():
        message, folder = await copies.of(table, [name], to="parquet")
        assert said in message


def difference_of(expected: Any, found: Any, kind: pa.DataType, *, is_json: bool) -> str:  # Any: JSON
    """Return how a value differs from the expected one; empty if it does not. In JSON, NaN and the infinities are null."""
    try:
        one, other = canonical(expected, kind), canonical(found, kind)
    except (ValueError, TypeError, KeyError, ArithmeticError) as error:
        return f"expected {expected!r}, found {found!r}: {error}"
    return "" if (finite(one) if is_json else one) == other else f"expected {expected!r}, found {found!r}"


def finite(value: Any) -> Any:  # Any: of `canonical`
    """Return the value with null for numbers that JSON does not have."""
    match value:
        case dict():
            return {name: finite(one) for name, one in value.items()}
        case list() | tuple():
            return type(value)(finite(one) for one in value)
        case _:
            return None if value in NOT_IN_JSON else value
