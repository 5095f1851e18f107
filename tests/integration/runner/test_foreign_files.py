"""Files that other software wrote, to results in each format: every value is the one that this
software itself reads.

Each table in `tests/foreign/<software>/files` that `expected.json` has rows of is read, and all of
its columns are copied. What may differ is in `differences.json` beside it: `{"<file>": {"<column>":
"<a part of the message>"}}`; the column `*` means the file. Null in place of the message: the
software makes something else of the column, and another test says what.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest
from pyarrow import dataset

from tests.foreign.software import HERE, Rows, all_software, files_of, readings_of
from tests.foreign.values import canonical, plain
from tests.integration.runner.openai_server import OpenAiServer
from tests.integration.runner.pods import Machine

READ: Final = {
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".orc": "orc",
    ".jsonl": "jsonl",
}
NOT_IN_JSON: Final = ("nan", "inf", "-inf")
"""As `canonical` has them."""

RESULTS: Final = ("arrow", "parquet", "jsonl")


@dataclass(frozen=True, slots=True)
class Table:
    """A file of a software, or a folder of files."""

    software: str
    name: str

    @property
    def path(self) -> Path:
        """Where it is."""
        return files_of(self.software) / self.name

    @property
    def input(self) -> dict[str, Any]:  # Any: JSON
        """The storage object of the input."""
        given: dict[str, Any] = {"claimName": "given", "path": self.name}  # Any: JSON
        if (self.path / "_delta_log").exists():
            return {"delta": given}
        if any(set(self.columns) - set(row) for row in self.rows):
            given["missingColumns"] = "Null"
        return {"file": {**given, "format": READ[_suffix(self.name)]}}

    @property
    def rows(self) -> Rows:
        """What the software reads."""
        return readings_of(self.software)[self.name]

    @property
    def columns(self) -> list[str]:
        """The names of all columns."""
        return list(dict.fromkeys(name for row in self.rows for name in row))

    @property
    def differences(self) -> dict[str, str | None]:
        """What the run says of columns that it does not read."""
        path = HERE / self.software / "differences.json"
        found: dict[str, str | None] = (
            json.loads(path.read_text()).get(self.name, {}) if path.exists() else {}
        )
        return found


def _suffix(name: str) -> str:
    """The extension of the format."""
    return Path(name.removesuffix(".gz").removesuffix(".zst")).suffix


def tables() -> list[Table]:
    """Return all tables."""
    return [
        Table(one.name, name)
        for one in all_software()
        if (one.folder / "expected.json").exists()
        for name, rows in readings_of(one.name).items()
        if rows and (_suffix(name) in READ or (files_of(one.name) / name / "_delta_log").exists())
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
        machine = Machine(
            self.folder / f"{to}-{len(list(self.folder.iterdir()))}", contract=contract
        )
        machine.input.rmdir()
        machine.input.symlink_to(files_of(table.software))
        return (await machine.pod()).message, machine.run_folder / "predictions"


@pytest.mark.parametrize("table", tables(), ids=lambda one: f"{one.software}/{one.name}")
async def test_every_value_is_the_one_that_its_writer_reads(
    table: Table, tmp_path: Path, llm: OpenAiServer
) -> None:
    copies = Copies(tmp_path, llm)
    differences = table.differences
    kinds = pa.schema([])
    wrong = list[str]()
    columns = [name for name in table.columns if not {name, "*"} & set(differences)]
    for form in RESULTS if columns else ():
        message, folder = await copies.of(table, columns, to=form)
        # A folder may have files such as _SUCCESS and _metadata, which are named.
        assert (
            message.split("; not read: ")[0]
            == f"{len(table.rows)} of {len(table.rows)} records predicted"
        )
        if form == "jsonl":
            lines = [
                line for path in sorted(folder.iterdir()) for line in path.read_bytes().splitlines()
            ]
            got = [json.loads(line, parse_float=Decimal) for line in lines]
        else:
            stored = dataset.dataset(folder, format="ipc" if form == "arrow" else form).to_table()
            kinds = stored.schema
            values = {name: plain(stored.column(name)) for name in ("index", *columns)}
            got = [
                dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)
            ]
        got.sort(key=lambda row: row["index"])
        types = {name: kinds.field(name).type for name in columns}
        both = [
            [_comparable(row, types, is_json=form == "jsonl") for row in rows]
            for rows in (table.rows, got)
        ]
        if table.path.is_dir():  # the order of files is not said
            both = [sorted(rows, key=repr) for rows in both]
        wrong += [
            f"{form}, row {at}, column {name} ({types[name]}): expected {row[name]!r}, found {found[name]!r}"
            for at, (row, found) in enumerate(zip(*both, strict=True))
            for name in columns
            if row[name] != found[name]
        ]
    assert not wrong, "\n".join(wrong)
    for name, said in differences.items():
        if said is None:
            continue
        message, _ = await copies.of(table, table.columns if name == "*" else [name], to="parquet")
        assert said in message


def _comparable(
    row: Mapping[str, Any], types: Mapping[str, pa.DataType], *, is_json: bool
) -> dict[str, Any]:
    """The values of a row as `canonical` has them; one that is none of its column's type equals
    nothing."""
    found = dict[str, Any]()  # Any: of `canonical`
    for name, kind in types.items():
        try:
            value = canonical(row.get(name), kind)
        except (ValueError, TypeError, KeyError, ArithmeticError) as error:
            value = ("not of the type", row.get(name), repr(error))
        found[name] = _finite(value) if is_json else value
    return found


def _finite(value: Any) -> Any:  # Any: of `canonical`
    """The value with null for NaN and the infinities, as JSON has them."""
    match value:
        case dict():
            return {name: _finite(one) for name, one in value.items()}
        case list() | tuple():
            return type(value)(_finite(one) for one in value)
        case _:
            return None if value in NOT_IN_JSON else value
