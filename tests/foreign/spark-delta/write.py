"""Spark with Delta: a table for each feature of the protocol, as statements of SQL leave it, and
types at their ends."""

import json
import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from spark_tables import rows_of, session_with, statements_in

OUT = Path(sys.argv[1]).resolve()
FILES = OUT / "files"
JARS = [jar for jar in os.environ["CLASSPATH"].split(":") if "/io/delta/" in jar]
SETTINGS = {
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def main():
    FILES.mkdir(parents=True)
    spark = session_with(SETTINGS, jars=JARS, warehouse=OUT / "warehouse")
    expected = {}
    for name, statements in statements_in(Path(__file__).with_name("tables.sql")).items():
        place = f"delta.`{FILES / name}.delta`"
        for statement in statements:
            spark.sql(statement.replace(" T ", f" {place} ", 1))
        expected[f"{name}.delta"] = rows_of(spark, place)
    spark.stop()
    # checksums, which readers do not need
    for path in [*FILES.rglob(".*.crc"), *FILES.rglob("*.crc")]:
        path.unlink(missing_ok=True)
    for path in FILES.rglob("_staged_commits"):
        shutil.rmtree(path)
    shutil.rmtree(OUT / "warehouse", ignore_errors=True)
    (OUT / "expected.json").write_text(json.dumps(expected, indent=1, ensure_ascii=False) + "\n")


main()
