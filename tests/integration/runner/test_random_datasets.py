"""Random datasets: each row is read once, in order, with the value and the type that an oracle
expects.

The oracle knows nothing of files: it has the values, and of each column the types that become one.
`DATASETS` sets the number of datasets.
"""

import csv
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.parse import quote

import orjson
import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import feather, orc, parquet

from inferrun.formats.arrow.format import ARROW
from inferrun.formats.csv.dialect import CsvDialect
from inferrun.formats.csv.format import Csv
from inferrun.formats.dataset import ListedFile, find
from inferrun.formats.orc import ORC
from inferrun.formats.parquet.format import PARQUET
from inferrun.formats.record_texts import copied_texts
from inferrun.formats.table_reader import TableReader
from inferrun.plugins import ArrowRecords, ColumnSelection, Limits
from inferrun.stores.dataset import DatasetStorage
from inferrun_runner.stores.dataset import OpenedDataset
from inferrun_runner.stores.file.local_files import LocalFile
from inferrun_runner.stores.file_ranges import FileRanges

DATASETS: Final = int(os.environ.get("DATASETS", "300"))


def integers(bits: int, *, is_signed: bool = True) -> st.SearchStrategy[int]:
    """The integers of a type, with its largest and smallest ones."""
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if is_signed else (0, (1 << bits) - 1)
    return st.integers(low, high) | st.sampled_from([low, high])


def decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    """The decimals of a type."""
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(
        lambda number: Decimal(number).scaleb(-scale)
    )


NONE = (pyarrow.null(), st.none())
INT8 = (pyarrow.int8(), integers(8))
INT64 = (pyarrow.int64(), integers(64))
TEXT = pyarrow.string()
TIMES = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  hypothesis adds the zone
FAMILIES: Final = (
    (NONE, INT8, (pyarrow.int16(), integers(16)), (pyarrow.int32(), integers(32)), INT64),
    (
        (pyarrow.uint8(), integers(8, is_signed=False)),
        (pyarrow.uint32(), integers(32, is_signed=False)),
        INT64,
    ),
    (
        (pyarrow.uint16(), integers(16, is_signed=False)),
        (pyarrow.uint64(), integers(64, is_signed=False)),
    ),
    (
        INT8,
        (pyarrow.float32(), st.floats(width=32, allow_nan=False)),
        (pyarrow.float64(), st.floats(allow_nan=False)),
    ),
    (
        (pyarrow.dictionary(pyarrow.int32(), TEXT), st.text()),
        (TEXT, st.text()),
        (pyarrow.large_string(), st.text()),
    ),
    (NONE, (pyarrow.binary(), st.binary()), (pyarrow.large_binary(), st.binary())),
    ((pyarrow.bool_(), st.booleans()),),
    ((pyarrow.date32(), st.dates(date(1900, 1, 1))),),
    (
        (
            pyarrow.timestamp("ms", "UTC"),
            TIMES.map(lambda one: one.replace(microsecond=one.microsecond // 1000 * 1000)),
        ),
        (pyarrow.timestamp("us", "UTC"), TIMES),
    ),
    ((pyarrow.decimal128(10, 2), decimals(10, 2)), (pyarrow.decimal128(12, 4), decimals(12, 4))),
    (
        (pyarrow.list_(pyarrow.int8()), st.lists(integers(8))),
        (pyarrow.list_(pyarrow.int32()), st.lists(integers(32))),
    ),
    tuple(
        (pyarrow.struct([("a", kind)]), st.fixed_dictionaries({"a": st.none() | some}))
        for kind, some in (INT8, INT64)
    ),
)
"""Types of which each has all values of those before it, with their values."""


def is_in_orc(kind: pyarrow.DataType) -> bool:
    """Whether pyarrow writes columns of the type to ORC files."""
    types = pyarrow.types
    return not (types.is_unsigned_integer(kind) or types.is_dictionary(kind) or types.is_null(kind))


def kept_by_orc(kind: pyarrow.DataType) -> pyarrow.DataType:
    """Return the type of such a column when it is read."""
    if pyarrow.types.is_timestamp(kind):
        return pyarrow.timestamp("ns", kind.tz)
    return {pyarrow.large_string(): TEXT, pyarrow.large_binary(): pyarrow.binary()}.get(kind, kind)


ORC_FAMILIES: Final = tuple(
    found for family in FAMILIES if (found := tuple(one for one in family if is_in_orc(one[0])))
)

FORMATS: Final[Mapping[str, TableReader]] = {"parquet": PARQUET, "arrow": ARROW, "orc": ORC}

PARTITIONS: Final = (
    (TEXT, [None, "a b", "x/y=z", "01"]),
    (pyarrow.int64(), [None, 3, -20]),
    (pyarrow.date32(), [None, date(2026, 11, 23), date(2024, 2, 29)]),
)


@dataclass(frozen=True)
class Given:
    """A dataset, and what the oracle says about it."""

    files: Mapping[str, pyarrow.Table]
    expected: pyarrow.Table


@st.composite
def datasets(draw: st.DrawFn, suffix: str) -> Given:
    """Files whose columns differ in their types, with nulls, missing columns, and a partition."""
    is_orc = suffix == ".orc"
    families = draw(
        st.lists(st.sampled_from(ORC_FAMILIES if is_orc else FAMILIES), min_size=1, max_size=4)
    )
    kind, choices = draw(st.sampled_from(PARTITIONS))
    paths: dict[str, Any] = {}  # Any: values of a column, here and below
    for at in range(draw(st.integers(1, 5))):
        value = draw(st.sampled_from(choices))
        text = "__HIVE_DEFAULT_PARTITION__" if value is None else quote(str(value), safe=" ")
        paths[f"p={text}/{at}{suffix}"] = value
    values: dict[str, list[Any]] = {
        name: [] for name in ["feed", *(f"c{at}" for at in range(len(families))), "p"]
    }
    widest: dict[str, int] = {}
    files: dict[str, pyarrow.Table] = {}
    for path in sorted(paths):
        rows = draw(st.integers(0, 30))
        values["feed"] += range(rows)
        values["p"] += [paths[path]] * rows
        columns = {"feed": pyarrow.array(range(rows), pyarrow.int32())}
        fields = [pyarrow.field("feed", pyarrow.int32(), nullable=False)]
        for at, family in enumerate(families):
            name = f"c{at}"
            width = draw(st.integers(-1, len(family) - 1))
            if width < 0:  # the file does not have the column
                values[name] += [None] * rows
                continue
            widest[name] = max(width, widest.get(name, 0))
            stored, some = family[width]
            drawn = draw(st.lists(st.none() | some, min_size=rows, max_size=rows))
            values[name] += drawn
            columns[name] = pyarrow.array(drawn, stored)
            fields.append(
                pyarrow.field(
                    name, stored, nullable=None in drawn or draw(st.booleans()) or not drawn
                )
            )
        files[path] = pyarrow.table(columns, pyarrow.schema(fields))
    types = {name: families[int(name[1:])][width][0] for name, width in widest.items()}
    types = {
        name: one.value_type if pyarrow.types.is_dictionary(one) else one
        for name, one in types.items()
    }
    types = {name: kept_by_orc(one) if is_orc else one for name, one in types.items()}
    types |= {
        "feed": pyarrow.int32(),
        "p": kind if any(one is not None for one in paths.values()) else TEXT,
    }
    return Given(
        files,
        pyarrow.table({name: pyarrow.array(values[name], one) for name, one in types.items()}),
    )


@pytest.mark.thorough
@settings(
    max_examples=DATASETS,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    st.data(), st.sampled_from([*FORMATS]), st.integers(1, 3000), st.integers(1, 20), st.randoms()
)
def test_each_row_is_read_once_in_order_with_value_and_type(  # noqa: PLR0917  what hypothesis draws
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    form: str,
    chunk_bytes: int,
    group: int,
    random: Random,
) -> None:
    one = data.draw(datasets(f".{form}"))
    folder = tmp_path_factory.mktemp("dataset")
    for path, table in one.files.items():
        (folder / path).parent.mkdir(exist_ok=True)
        if form == "parquet":
            parquet.write_table(table, folder / path, row_group_size=group)
        elif form == "orc":
            orc.write_table(
                table,
                folder / path,
                stripe_size=64 * group,
                compression=random.choice(["zstd", "uncompressed"]),
            )
        else:
            compression = random.choice(["zstd", "uncompressed"])
            feather.write_feather(
                table, str(folder / path), chunksize=group, compression=compression
            )
    source = source_of(folder, [*one.files], form=form, chunk_bytes=chunk_bytes)
    chunks = list(source.plan().chunks)
    parts: dict[int, pyarrow.Table] = {}
    for chunk in random.sample(chunks, len(chunks)):
        blocks = [
            block.copied.table
            for block in source.read(chunk)
            if isinstance(block.copied, ArrowRecords)
        ]
        parts[chunk.index] = pyarrow.Table.from_batches(blocks)
        assert parts[chunk.index].num_rows == chunk.records
    if not one.expected.num_rows:
        assert not parts
        return
    found = pyarrow.concat_tables([parts[at] for at in sorted(parts)])
    assert set(found.column_names) == set(one.expected.column_names)
    assert found.select(one.expected.column_names).equals(one.expected)


ENCODINGS: Final = ("utf-8", "iso-8859-15", "windows-1251", "shift_jis", "gb18030")


@st.composite
def dialects(draw: st.DrawFn) -> CsvDialect:
    """Dialects in which every text can be written."""
    quote = draw(st.sampled_from(['"', "'", ""]))
    escape = "" if quote == '"' and draw(st.booleans()) else "\\"
    return CsvDialect(
        delimiter=draw(st.sampled_from([",", ";", "\t", "|", " "])),
        quote=quote,
        escape=escape,
        escape_unquoted=bool(quote and escape),  # Python's csv module has no other escapes
        skip_initial_space=bool(quote) and draw(st.booleans()),
        encoding=draw(st.sampled_from(ENCODINGS)),
        header=draw(st.booleans()),
        columns=draw(st.sampled_from([(), ("feed", "b", "c")])),
        null_values=draw(st.frozensets(st.sampled_from(["", "NA", "-", "\n"]))),
    )


@pytest.mark.thorough
@settings(
    max_examples=DATASETS, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(st.data(), dialects(), st.integers(1, 3000), st.randoms())
def test_each_text_of_a_csv_file_is_kept_exactly(
    tmp_path_factory: pytest.TempPathFactory,
    data: st.DataObject,
    dialect: CsvDialect,
    chunk_bytes: int,
    random: Random,
) -> None:
    names = dialect.columns or (
        ("feed", "x y", "ü") if dialect.has_header else ("column_1", "column_2", "column_3")
    )
    if dialect.encoding in ("shift_jis", "windows-1251"):
        names = tuple(name.replace("ü", "ж") for name in names)
    texts = st.text(
        st.characters(codec=dialect.encoding, exclude_characters="¥‾")
    ) | st.sampled_from(["NA", "-", " a ", 'a"b', "a\nb\r\n\nc", "it's", "\\"])
    tables = data.draw(
        st.lists(st.lists(st.tuples(texts, texts), min_size=1, max_size=20), min_size=1, max_size=4)
    )
    folder = tmp_path_factory.mktemp("dataset")
    paths = [f"{at}.csv" for at in range(len(tables))]
    quotes_all = dialect.skip_initial_space or (
        bool(dialect.quote) and random.choice([True, False])
    )
    for path, rows in zip(paths, tables, strict=True):
        with (folder / path).open("w", encoding=dialect.encoding, newline="") as file:
            out = csv.writer(
                file,
                delimiter=dialect.delimiter,
                quotechar=dialect.quote or None,
                escapechar=dialect.escape or None,
                doublequote=not dialect.escape,
                quoting=csv.QUOTE_ALL
                if quotes_all
                else csv.QUOTE_MINIMAL
                if dialect.quote
                else csv.QUOTE_NONE,
                # otherwise a carriage return has no quotes
                lineterminator="\n" if quotes_all else "\r\n",
            )
            if dialect.has_header:
                out.writerow(names if not dialect.columns else ["1", "a", "b"])
            out.writerows((at, *row) for at, row in enumerate(rows))
    source = source_of(
        folder, paths, form="csv", chunk_bytes=chunk_bytes, csv_dialect=dialect, fed=names[0]
    )
    # which has quotes or an escape
    nulls = frozenset[str]() if quotes_all else dialect.null_values - {"\n"}
    expected = [
        {
            names[0]: str(at),
            **{
                name: None if text in nulls else text
                for name, text in zip(names[1:], row, strict=True)
            },
        }
        for rows in tables
        for at, row in enumerate(rows)
    ]
    chunks = list(source.plan().chunks)
    found: dict[int, list[Any]] = {}
    for chunk in random.sample(chunks, len(chunks)):
        blocks = list(source.read(chunk))
        assert not any(block.errors for block in blocks)
        found[chunk.index] = [
            orjson.loads(b"{%b}" % one) for block in blocks for one in copied_texts(block)
        ]
        assert len(found[chunk.index]) == chunk.records
    assert [row for at in sorted(found) for row in found[at]] == expected


def source_of(
    folder: Path,
    paths: list[str],
    *,
    form: str,
    chunk_bytes: int,
    csv_dialect: CsvDialect | None = None,
    fed: str = "feed",
) -> FileRanges:
    """The input of the files below a folder, among others that are not read."""
    others = [
        ListedFile(name, 1) for name in ("_SUCCESS", f".x.{form}", "notes.txt", f"old/x.{form}")
    ]
    listed = [ListedFile(path, (folder / path).stat().st_size) for path in paths]
    found = find(
        [*others, *listed, ListedFile(f"p=1/empty.{form}", 0)],
        pattern="",
        suffixes=(f".{form}",),
        field="path",
    )
    assert sum(skipped.count for skipped in found.skipped) == len(others) + 1
    files = {path: LocalFile(folder, path, (folder / path).stat().st_size) for path in paths}
    spec = DatasetStorage(allow_empty=True, missing_columns="Fail" if csv_dialect else "Null")
    opened = OpenedDataset(found, files, repr, None, spec, "input.file")
    columns = ColumnSelection(fed=(fed,), copies_all=True)
    record_format = (
        Csv(columns, csv_dialect) if csv_dialect else FORMATS[form].with_columns(columns)
    )
    return FileRanges(opened, record_format=record_format, limits=Limits(chunk_bytes=chunk_bytes))
