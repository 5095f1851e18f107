"""DuckDB: types that Parquet has in another form, or that few readers know, and what it reads of
its files."""

import json
import sys
from pathlib import Path

import duckdb

OUT = Path(sys.argv[1])
FILES = OUT / "files"
FILES.mkdir(parents=True)
TABLES = {
    "types": {
        "bits": ("'10101'::bit", "bits::varchar"),
        "big": ("123456789012345678901234567890::bignum", "big::varchar"),
        "either": ("union_value(n := 5)::union(n int, s varchar)", "either"),
        "u": ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid", "u::varchar"),
    },
    "interval": {"span": ("interval '1 month 2 days 3 seconds'", "span::varchar")},
    "nested": {"nested": ("{'took': interval '1 day'}", "nested::json")},
    "variant": {"anything": ("{'a': 1}::variant", "anything::json")},
}

expected = {}
for name, columns in TABLES.items():
    path = FILES / f"{name}.parquet"
    made = ", ".join(f"{value} as {column}" for column, (value, _) in columns.items())
    nulls = ", ".join(["null"] * len(columns))
    duckdb.sql(
        f"copy (select 1 as id, {made} union all select 2, {nulls}) to '{path}' (format parquet)"
    )
    read = ", ".join(f"{text} as {column}" for column, (_, text) in columns.items())
    rows = duckdb.sql(
        f"select to_json(r) from (select id, {read} from '{path}' order by id) r"
    ).fetchall()
    expected[path.name] = [json.loads(row) for (row,) in rows]
(OUT / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
