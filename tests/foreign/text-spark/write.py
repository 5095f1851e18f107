"""Spark: the same texts as CSV and JSON lines, and what it reads there."""

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

OUT = Path(sys.argv[1])
FILES = OUT / "files"
FILES.mkdir(parents=True)
TEXTS = json.loads(Path("../texts.json").read_text())
NULL = {"nullValue": "(none)"}
"""By default, Spark reads an empty text in quotes as null, although it writes it so."""

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.warehouse.dir", str(OUT / "warehouse"))
    .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={OUT}")
    .enableHiveSupport()
    .getOrCreate()
)
frame = spark.createDataFrame(list(enumerate(TEXTS)), "id int, t string").coalesce(1)
read: dict[str, list[dict[str, str | None]]] = {}


def add(
    name: str,
    data: DataFrame,
    *,
    form: str = "csv",
    reads: dict[str, str] = NULL,
    **options: object,
) -> None:
    """Write a folder, keep its only file, and note what is read in it."""
    folder = OUT / "folder"
    data.write.mode("overwrite").options(header=True, **options).format(form).save(str(folder))
    next(folder.glob("part-*")).rename(FILES / name)
    reader = (
        spark.read.options(header=True, multiLine=True, **{**options, **reads})
        if form == "csv"
        else spark.read
    )
    found = reader.schema(data.schema).format(form).load(str(FILES / name)).collect()
    read[name] = [
        {key: None if value is None else str(value) for key, value in row.asDict().items()}
        for row in found
    ]


add("spark.csv", frame)
add("spark-all-quoted.csv", frame, quoteAll=True)
add("spark-doubled.csv", frame, escape='"')
add("spark-null-and-tabs.csv", frame, sep="\t", nullValue="\\N", emptyValue="", reads={})
add("part-00000.json", frame, form="json")
LINES = [
    (at, text) for at, text in enumerate(TEXTS) if not set("\r\n") & set(text or "")
]  # Hive's reader ends lines at both
spark.createDataFrame(LINES, "id int, t string").coalesce(1).createOrReplaceTempView("texts")
for name, form in (
    ("hive", ""),
    ("hive-escaped", "row format delimited fields terminated by '\\t' escaped by '\\\\'"),
):
    folder, table = OUT / name, name.replace("-", "_")
    spark.sql(
        f"insert overwrite local directory '{folder}' {form} stored as textfile select * from texts"
    )
    next(folder.glob("part-*")).rename(FILES / name)
    spark.sql(f"create table {table} (id int, t string) {form} stored as textfile")
    spark.sql(f"load data local inpath '{FILES / name}' into table {table}")
    read[name] = [
        {"id": str(row.id), "t": row.t}
        for row in spark.sql(f"select * from {table} order by id").collect()
    ]
(OUT / "expected.json").write_text(json.dumps(read, indent=1) + "\n")
spark.stop()
