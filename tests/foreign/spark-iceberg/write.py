"""Spark with Iceberg: files that Spark had written before, and changed tables. Paths are those in a
bucket `records`."""

import json
import os
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from spark_tables import rows_of, session_with, statements_in

OUT = Path(sys.argv[1]).resolve()
FILES = OUT / "files"
JARS = [jar for jar in os.environ["CLASSPATH"].split(":") if "/org/apache/iceberg/" in jar]


def main():
    tables = OUT / "tables"
    warehouse = f"file:{tables}"
    settings = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.c": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.c.type": "hadoop",
        "spark.sql.catalog.c.warehouse": warehouse,
    }
    spark = session_with(settings, jars=JARS, warehouse=OUT / "warehouse")
    expected = {}
    for name, statements in statements_in(Path(__file__).with_name("tables.sql")).items():
        place = f"c.db.`{name}.iceberg`"
        for statement in statements:
            spark.sql(
                statement.replace(" T ", f" {place} ", 1).replace("FOLDER", f"{warehouse}/db")
            )
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
        (OUT / "expected.json").write_text(
            json.dumps(expected, indent=1, ensure_ascii=False) + "\n"
        )
    spark.stop()
    for folder in (tables, OUT / "warehouse"):
        shutil.rmtree(folder, ignore_errors=True)


main()
