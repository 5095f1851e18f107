"""What the writers of Spark's tables share: a session, the statements of `tables.sql`, and the rows
that Spark reads.

Runs in Spark's own environments, so it imports nothing of the project.
"""

import base64
import math
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def session_with(
    settings: Mapping[str, str], *, jars: Sequence[str], warehouse: Path
) -> SparkSession:
    """Start Spark on this machine, with the settings of a kind of tables."""
    given = {
        "spark.jars": ",".join(jars),
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.warehouse.dir": str(warehouse),
        **settings,
    }
    builder = SparkSession.builder.master("local[1]")
    for name, value in given.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def statements_in(path: Path) -> dict[str, list[str]]:
    """Return the statements that make each table: a comment names the table, and they are below
    it."""
    _, *tables = re.split(r"(?m)^-- (\S+)$", path.read_text())
    return {
        name: [one for one in map(str.strip, body.split(";\n")) if one]
        for name, body in zip(tables[::2], tables[1::2], strict=True)
    }


def rows_of(spark: SparkSession, place: str) -> list[dict[str, Any]]:  # Any: JSON
    """Return what Spark reads. It writes times as texts itself, because Python has none of the year
    1 in UTC."""
    table = spark.sql(f"select * from {place} order by 1")  # noqa: S608  a table of ours
    for name, kind in table.dtypes:
        if "timestamp" in kind or kind == "date":
            text = "array<string>" if kind.startswith("array") else "string"
            table = table.withColumn(name, table[f"`{name}`"].cast(text))
        elif "variant" in kind:
            table = table.withColumn(name, table[f"`{name}`"].cast("string"))
    return [_shown(row.asDict(recursive=True)) for row in table.collect()]


def _shown(value: Any) -> Any:  # Any: what Spark has, and JSON
    """Return a value in the form of expected.json."""
    if isinstance(value, dict):
        return {key: _shown(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_shown(one) for one in value]
    if isinstance(value, bytes | bytearray):
        return {"b64": base64.b64encode(value).decode()}
    is_text = isinstance(value, Decimal) or (isinstance(value, float) and not math.isfinite(value))
    return str(value) if is_text else value
