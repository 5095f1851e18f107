"""DataFusion: lists as views, dictionaries and views of texts, sorted and filtered, in Arrow and
Parquet; what it reads there."""

import json
import sys
from pathlib import Path

import pyarrow as pa
from datafusion import SessionContext
from pyarrow import ipc

OUT = Path(sys.argv[1])
FILES = OUT / "files"
FILES.mkdir(parents=True)

TABLE = """
select id, arrow_cast(v, 'ListView(Float64)') as v, arrow_cast(v, 'LargeListView(Float64)') as large,
    arrow_cast(w, 'ListView(ListView(Int64))') as deep, arrow_cast(s, 'Utf8View') as s,
    arrow_cast(s, 'Dictionary(Int32, Utf8)') as d, arrow_cast(id / 4, 'Decimal128(10, 2)') as dec
from (select column1 as id, make_array(column1 + 0.0, column1 + 0.5) as v, make_array(make_array(column1), make_array(1, 2)) as w,
    'text number ' || column1 as s from (values (1), (2), (3), (4), (5), (6)))
"""
QUERIES = {"sorted": "order by id desc", "filtered": "where id in (2, 4, 5) order by id"}
TEXTS = """id, v::varchar as v, large::varchar as large, deep::varchar as deep, s, d::varchar as d, dec::varchar as dec"""
context = SessionContext()
expected = {}
for name, rest in QUERIES.items():
    query = f"select * from ({TABLE}) {rest}"
    batches = context.sql(query).collect()
    with (
        pa.OSFile(str(FILES / f"{name}.arrow"), "wb") as out,
        ipc.new_file(out, batches[0].schema) as file,
    ):
        for batch in batches:
            file.write_batch(batch)
    context.sql(query).write_parquet(str(FILES / f"{name}.parquet"))
    rows = [
        row
        for batch in context.sql(f"select {TEXTS} from ({TABLE}) {rest}").collect()
        for row in batch.to_pylist()
    ]
    for row in rows:
        row.update({one: json.loads(row[one]) for one in ("v", "large", "deep")})
    for suffix in ("arrow", "parquet"):
        expected[f"{name}.{suffix}"] = rows
(OUT / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
