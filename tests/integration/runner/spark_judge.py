"""Spark as a judge of the table of values, in the environment that `tests/foreign` makes for it:
imports nothing of the project.

`spark_judge.py PAIRS` reads a list of `[kind, reader, way, file of the input, column, files of the
results]` and prints a JSON object: how many pairs are equal, how many Spark does not read, and the
differences.
"""

import json
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as f


def main() -> None:
    """Compare type and values of each pair."""
    session = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = (
        session.config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    equal, unread, different = 0, [], []
    for kind, reader, way, given, column, results in json.loads(Path(sys.argv[1]).read_text()):
        try:
            left = spark.read.parquet(given).select("x", f.col("v").alias("a"))
            left.collect()
        except (PySparkException, Exception) as error:  # noqa: BLE001  whatever Spark says of a type that it lacks
            unread.append(f"{kind}: {str(error).splitlines()[0][:120]}")
            continue
        right = spark.read.parquet(*results).select(
            "index", f.col(column).alias("b"), f.col("error").alias("e")
        )
        pairs = left.join(right, left.x == right.index, "left").where("e is null")
        is_map = left.schema["a"].dataType.simpleString().startswith("map")
        same = "to_json(a) <=> to_json(b)" if is_map else "a <=> b"
        wrong = pairs.where(f"not ({same})").selectExpr("string(a)", "string(b)").collect()
        types = left.schema["a"].dataType.simpleString(), right.schema["b"].dataType.simpleString()
        if wrong or (types[0] != types[1] and way in ("copied", "chained")):
            shown = [f"{row[0]} became {row[1]}" for row in wrong[:3]]
            different.append(f"{kind}, {reader}, {way}: {types[0]} is {types[1]}; {shown}")
        else:
            equal += 1
    sys.stdout.write(
        json.dumps({"equal": equal, "unread": sorted(set(unread)), "different": different})
    )


main()
