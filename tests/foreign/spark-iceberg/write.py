"""Spark with Iceberg: files that Spark had written before, and changed tables. Paths are those in a bucket `records`."""

import base64
import json
import math
import os
import re
import shutil
import sys
from decimal import Decimal
from pathlib import Path

from pyspark.sql import SparkSession

OUT = Path(sys.argv[1]).resolve()
FILES = OUT / "files"
JARS = [jar for jar in os.environ["CLASSPATH"].split(":") if "/org/apache/iceberg/" in jar]


def statements_by_table():
    """What `tables.sql` has: a comment names a table, and the statements below it make it."""
    _, *tables = re.split(r"(?m)^-- (\S+)$", Path(__file__).with_name("tables.sql").read_text())
    return {
        name: [one for one in map(str.strip, body.split(";\n")) if one]
        for name, body in zip(tables[::2], tables[1::2], strict=True)
    }


def shown(value):
    """The forms of expected.json."""
    if isinstance(value, dict):
        return {key: shown(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shown(one) for one in value]
    if isinstance(value, bytes | bytearray):
        return {"b64": base64.b64encode(value).decode()}
    is_text = isinstance(value, Decimal) or (isinstance(value, float) and not math.isfinite(value))
    return str(value) if is_text else value


def rows_of(spark, place):
    """What Spark reads; it writes times as texts itself, because Python has none of the year 1 in UTC."""
    table = spark.sql(f"select * from {place} order by 1")
    for name, kind in table.dtypes:
        if "timestamp" in kind or kind == "date":
            table = table.withColumn(
                name, table[f"`{name}`"].cast("array<string>" if kind.startswith("array") else "string")
            )
        elif "variant" in kind:
            table = table.withColumn(name, table[f"`{name}`"].cast("string"))
    return [shown(row.asDict(recursive=True)) for row in table.collect()]


def main():
    tables = OUT / "tables"
    warehouse = f"file:{tables}"
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars", ",".join(JARS))
        .config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
        .config("spark.sql.catalog.c", "org.apache.iceberg.spark.SparkCatalog")
        .config("spark.sql.catalog.c.type", "hadoop")
        .config("spark.sql.catalog.c.warehouse", warehouse)
        .config("spark.sql.warehouse.dir", str(OUT / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    expected = {}
    for name, statements in statements_by_table().items():
        place = f"c.db.`{name}.iceberg`"
        for statement in statements:
            spark.sql(statement.replace(" T ", f" {place} ", 1).replace("FOLDER", f"{warehouse}/db"))
        expected[f"{name}.iceberg"] = rows_of(spark, place)
        moved = FILES / f"{name}.iceberg"
        # Files of deletions have paths in them: the procedure writes them again.
        left_out = shutil.ignore_patterns("metadata", ".*", "_SUCCESS", "*-deletes.parquet")
        shutil.copytree(tables / "db" / moved.name, moved, ignore=left_out)
        spark.sql(
            f"call c.system.rewrite_table_path(table => 'db.`{moved.name}`', source_prefix => '{warehouse}/db/{moved.name}',"
            f" target_prefix => 's3://records/{moved.name}', staging_location => '{moved}')",
        )
        (moved / "file-list").unlink()
        for path in moved.rglob(".*.crc"):
            path.unlink()
        (OUT / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")
    spark.stop()
    for folder in (tables, OUT / "warehouse"):
        shutil.rmtree(folder, ignore_errors=True)


main()
