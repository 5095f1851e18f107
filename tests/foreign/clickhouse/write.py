"""ClickHouse, embedded (chdb): one table in the formats of files that it writes, and what it reads
there."""

import json
import sys
from pathlib import Path

import chdb

OUT = Path(sys.argv[1])
FILES = OUT / "files"
FILES.mkdir(parents=True)

TABLE = """
select number::Int32 as id, * except number from (select
    number,
    [0, 18446744073709551615, 9223372036854775808][number + 1]::UInt64 as u64,
    [-9223372036854775808, 9223372036854775807, 9007199254740993][number + 1]::Int64 as i64,
    [toFloat32(0.1), toFloat32(-inf), nan][number + 1]::Float32 as f32,
    [0.1, 1e300, nan][number + 1]::Float64 as f64,
    ['', 'é "q" \\\\N', 'two\\nlines'][number + 1] as s,
    if(number = 1, null, 'x')::Nullable(String) as maybe,
    ['low', 'high', 'low'][number + 1]::Enum8('low' = 1, 'high' = 2) as e,
    ['a', 'b', 'a'][number + 1]::LowCardinality(String) as lc,
    (number = 1)::Bool as b,
    ['1970-01-01', '2149-06-06', '2024-02-29'][number + 1]::Date as d,
    ['1900-01-01', '2299-12-31', '2024-02-29'][number + 1]::Date32 as d32,
    toDateTime(['1970-01-01 00:00:00', '2106-02-07 06:28:15', '2024-02-29 12:34:56'][number + 1], 'UTC') as dt,
    toDateTime64(['1900-01-01 00:00:00.000001', '2262-04-11 23:47:16.854775', '2024-02-29'][number + 1], 6, 'UTC') as dt64,
    [toDecimal64('0.10', 2), toDecimal64('-123456789012345.67', 2), toDecimal64('1', 2)][number + 1] as dec,
    ['0', '1234567890123456789012345678.0123456789', '-1'][number + 1]::Decimal128(10) as dec38,
    toUUID('61f0c404-5cb3-11e7-907b-a6006ad3dba' || toString(number)) as u,
    [[1, null], [], [3]][number + 1]::Array(Nullable(Int32)) as l,
    (number::Int32, 'n' || toString(number))::Tuple(a Int32, b String) as t,
    map('k', number::Int64)::Map(String, Int64) as m
    from numbers(3)) order by id
"""
MORE = """
select number::Int32 as id,
    ['abc', 'a\\0\\0', 'é\\0'][number + 1]::FixedString(3) as fs,
    toIPv4('192.168.0.' || toString(number)) as ip4,
    toIPv6('2001:db8::' || toString(number)) as ip6,
    toInt128('170141183460469231731687303715884105727') - number as i128,
    concat(if(number = 1, '-0', repeat('1234567890', 7) || '1234'), '.56')::Decimal256(2) as d256,
    if(number = 1, null, 'a')::LowCardinality(Nullable(String)) as lcn,
    if(number = 1, [], [[1, 2], [], [3]])::Array(Array(UInt8)) as aa,
    map('a', [1, 2], 'b', [])::Map(String, Array(Int32)) as mm,
    [(number, 'a')]::Nested(x Int8, y String) as nested,
    '{"a": 1, "b": ["x"]}'::JSON as js,
    toDateTime64('2024-02-29 12:34:56.123456789', 9, 'Europe/Berlin') as dt9
    from numbers(3) order by id
"""
# ClickHouse has no UUID, JSON and Decimal256 in ORC. Numbers of 128 bits and addresses are bytes to
# its own reader.
FILES_OF = {
    "types.parquet": ("Parquet", TABLE, ""),
    "types.arrow": ("Arrow", TABLE, ""),
    "types.orc": ("ORC", TABLE, "except u"),
    "types.jsonl": ("JSONEachRow", TABLE, ""),
    "more.parquet": ("Parquet", MORE, ""),
    "more.arrow": ("Arrow", MORE, ""),
    "more.orc": ("ORC", MORE, "except (js, d256)"),
}
BYTES = ("ip6", "i128")
# Its own reader takes decimals in JSON for doubles, and texts for times, unless it is told
# otherwise.
AS_WRITTEN = """schema_inference_hints = 'dec Decimal64(2), dec38 Decimal128(10)',
    input_format_try_infer_dates = 0, input_format_try_infer_datetimes = 0, """
SETTINGS = """settings output_format_json_quote_64bit_integers = 0, output_format_json_quote_denormals = 1,
    output_format_json_quote_decimals = 1, date_time_output_format = 'iso'"""

expected = {}
for file, (name, table, less) in FILES_OF.items():
    path = FILES / file
    chdb.query(f"select * {less} from ({table}) into outfile '{path}' format {name}")
    settings = (
        SETTINGS.replace("settings ", f"settings {AS_WRITTEN}")
        if name == "JSONEachRow"
        else SETTINGS
    )
    encoded = ", ".join(f"base64Encode({one}) as {one}" for one in BYTES)
    columns = "*" if table is TABLE else f"* replace ({encoded})"
    rows = chdb.query(
        f"select {columns} from file('{path}', {name}) order by id {settings}", "JSONEachRow"
    ).bytes()
    expected[file] = [json.loads(line) for line in rows.splitlines()]
    if table is MORE:
        for row in expected[file]:
            row.update({one: {"b64": row[one]} for one in BYTES})
(OUT / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
