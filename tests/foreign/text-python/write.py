"""pandas, polars, DuckDB and ClickHouse (chdb): the same texts as CSV and TSV, and what each of
them reads there."""

import csv
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import chdb
import duckdb
import pandas
import polars

OUT = Path(sys.argv[1])
FILES = OUT / "files"
FILES.mkdir(parents=True)
TEXTS = json.loads(Path("../texts.json").read_text())
NO_RETURNS = [
    text for text in TEXTS if "\r" not in (text or "")
]  # pandas writes these without quotes, and then reads other records
read: dict[str, list[dict[str, str | None]]] = {}


def add(
    name: str,
    write: Callable[[str], object],
    texts: Callable[[str], Sequence[str | None]],
    *,
    ids: bool = True,
) -> None:
    """Write a file, and note the texts that are read in it."""
    path = str(FILES / name)
    write(path)
    read[name] = [
        {"id": str(at), "t": text} if ids else {"t": text} for at, text in enumerate(texts(path))
    ]


frame = pandas.DataFrame({"id": range(len(NO_RETURNS)), "t": NO_RETURNS})
OPTIONS = {"dtype": str, "keep_default_na": False, "na_values": {"t": [""]}}


def by_pandas(path: str, **options: object) -> list[str | None]:
    """The texts of a file."""
    found = pandas.read_csv(path, **OPTIONS, **options)["t"]
    return [None if pandas.isna(one) else one for one in found]


def all_quoted(path: str) -> list[str | None]:
    """The texts of a file in which pandas takes each empty one for null."""
    return [text or "" for text in by_pandas(path)]


add("pandas.csv", lambda path: frame.to_csv(path, index=False), by_pandas)
add(
    "pandas-all-quoted.csv",
    lambda path: frame.to_csv(path, index=False, quoting=csv.QUOTE_ALL),
    all_quoted,
)
ESCAPES = {"escapechar": "\\", "doublequote": False}
add(
    "pandas-escaped.csv",
    lambda path: frame.to_csv(path, index=False, **ESCAPES),
    lambda path: by_pandas(path, **ESCAPES),
)
UNQUOTED = {"escapechar": "\\", "quoting": csv.QUOTE_NONE}
add(
    "pandas-unquoted.csv",
    lambda path: frame.to_csv(path, index=False, **UNQUOTED),
    lambda path: by_pandas(path, **UNQUOTED),
)
pandas.DataFrame({"id": [0], "t": ["cr\rx"]}).to_csv(FILES / "pandas-return.csv", index=False)

table = polars.DataFrame({"id": range(len(TEXTS)), "t": TEXTS})
add(
    "polars.csv",
    table.write_csv,
    lambda path: polars.read_csv(path, infer_schema=False)["t"].to_list(),
)
add(
    "polars-one-column.csv",
    table.select("t").write_csv,
    lambda path: polars.read_csv(path, infer_schema=False)["t"].to_list(),
    ids=False,
)

database = duckdb.connect()
database.execute(
    "create table t as select unnest(range(len(?))) as id, unnest(?) as t", [TEXTS, TEXTS]
)


def by_duckdb(path: str, options: str = "") -> list[str | None]:
    """The texts of a file; unless it is told otherwise, DuckDB takes a value in quotes for null,
    too."""
    query = f"select t from read_csv('{path}', header = true, all_varchar = true, allow_quoted_nulls = false{options})"
    return [row[0] for row in database.execute(query).fetchall()]


add("duckdb.csv", lambda path: database.execute(f"copy t to '{path}'"), by_duckdb)
add(
    "duckdb-escaped.csv",
    lambda path: database.execute(f"copy t to '{path}' (escape '\\', nullstr 'NULL')"),
    lambda path: by_duckdb(path, ", escape = '\\', nullstr = 'NULL'"),
)
add(
    "duckdb-one-column.csv",
    lambda path: database.execute(f"copy (select t from t) to '{path}'"),
    by_duckdb,
    ids=False,
)

VALUES = ", ".join(
    f"({at}, {'null' if text is None else f'unhex({text.encode().hex()!r})'})"
    for at, text in enumerate([*TEXTS, "nul\0a"])
)
QUERY = f"select * from values('id Int32, t Nullable(String)', {VALUES}) order by id"
for name, form, columns in (
    ("clickhouse.tsv", "TabSeparated", "id Int32, t Nullable(String)"),
    ("clickhouse-names.tsv", "TabSeparatedWithNames", "id Int32, t Nullable(String)"),
    ("clickhouse.csv", "CSVWithNames", "id Int32, t Nullable(String)"),
):
    (FILES / name).write_bytes(chdb.query(QUERY, form).bytes())
    found = chdb.query(
        f"select * from file('{FILES / name}', {form}, '{columns}')", "JSONEachRow"
    ).bytes()
    read[name] = [
        {"id": str(row["id"]), "t": row["t"]} for row in map(json.loads, found.splitlines())
    ]

(OUT / "expected.json").write_text(json.dumps(read, indent=1) + "\n")
