"""The page about results shows how other tools open them: its lines are executed on the output of a run."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.runner.pods import REPOSITORY, Machine

PAGE = REPOSITORY / "docs" / "how-to" / "results.md"
FOLDER = "results/inf-iris-monday-5be07ada"
COUNT = 400
BAD = 7
SHOWN = {
    "pandas": "json.loads(frame.to_json(orient='records'))",
    "polars": "frame.sort('index').to_dicts()",
    "duckdb": "[{'index': row[0], 'prediction': row[columns.index('prediction')]} for row in rows]",
    "pyspark": "[row.asDict() for row in frame.collect()]",
}


def lines_for(tool: str) -> str:
    """The lines of the page that open results with a tool, after those that find the parts."""
    section = PAGE.read_text().split("## Without this project's library")[1].split("\n## ")[0]
    parts, *blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (block,) = (block for block in blocks if re.search(rf"^(import|from) {tool}\b", block, re.MULTILINE))
    return f"{parts}\n{block}"


async def results_of(file: Machine) -> Path:
    """Execute a run, and return a folder that contains its results, in several parts, under the page's name."""
    lines = (json.dumps({"inputs": [index, "x" if index == BAD else 0.5]}) + "\n" for index in range(COUNT))
    (file.input / "data" / "rows.jsonl").write_text("".join(lines))
    file.contract["output"]["file"]["format"] = "parquet"
    ended = await file.pod(INFERRUN_CHUNK_BYTES="1024")
    assert (ended.code, ended.result.records.failed) == (0, 1), ended.message
    (manifest,) = file.output.rglob("manifest.json")
    manifest.parent.rename(file.output / FOLDER)
    (file.output / FOLDER / "predictions" / "part-999999-left-by-a-killed-pod.parquet").write_bytes(b"PAR1")
    return file.output


def check_rows(tool: str, *, place: Path) -> None:
    """Execute the page's lines for a tool in a process of their own, and compare the rows with what the model predicts."""
    columns = "import pyarrow.parquet\ncolumns = pyarrow.parquet.read_schema(parts[0]).names\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{lines_for(tool)}\n{columns}\nprint('ROWS', json.dumps({SHOWN[tool]}, default=str))"],
        cwd=place,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    (found,) = (line for line in done.stdout.splitlines() if line.startswith("ROWS "))
    rows: list[dict[str, Any]] = json.loads(found.removeprefix("ROWS "))  # Any: what the tool returns
    predicted = [(row["index"], row["prediction"]) for row in rows if row["prediction"] is not None]
    assert predicted == [(index, index + 0.5) for index in range(COUNT) if index != BAD], tool


async def test_data_frames_and_duckdb_open_the_results_as_the_page_shows(file: Machine) -> None:
    place = await results_of(file)
    for tool in ("pandas", "polars", "duckdb"):
        check_rows(tool, place=place)


@pytest.mark.skipif(importlib.util.find_spec("pyspark") is None, reason="pyspark is not installed")
@pytest.mark.skipif(shutil.which("java") is None, reason="Spark needs Java")
async def test_spark_opens_the_results_as_the_page_shows(file: Machine) -> None:
    check_rows("pyspark", place=await results_of(file))
