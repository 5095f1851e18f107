"""The page about results shows how other tools open them: its lines are executed on the output of a
run."""

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from tests.integration.runner.pods import REPOSITORY, Machine

PAGE = REPOSITORY / "docs" / "how-to" / "results.md"
FOLDER = "results/inf-iris-monday-5be07ada"
COUNT = 400
BAD = 7
SHOWN = {
    "pandas": "json.loads(frame.to_json(orient='records'))",
    "polars": "frame.sort('index').to_dicts()",
    "duckdb": "[{'index': row[0], 'prediction': row[columns.index('prediction')]} for row in rows]",
}


def lines_for(tool: str, title: str = "Without this project's library") -> str:
    """The lines of a section of the page that open results with a tool, after those that find the
    parts."""
    (parts, *_), blocks = (
        re.findall(
            r"```python\n(.*?)```",
            PAGE.read_text().split(f"\n## {one}")[1].split("\n## ")[0],
            re.DOTALL,
        )
        for one in ("Without this project's library", title)
    )
    (block,) = (
        block for block in blocks if re.search(rf"^(import|from) {tool}\b", block, re.MULTILINE)
    )
    return f"{parts}\n{block}"


async def results_of(file: Machine) -> Path:
    """Execute a run, and return a folder that contains its results, in several parts, under the
    page's name."""
    lines = (
        json.dumps({"inputs": [index, "x" if index == BAD else 0.5]}) + "\n"
        for index in range(COUNT)
    )
    (file.input / "data" / "rows.jsonl").write_text("".join(lines))
    file.contract["output"]["file"]["format"] = "parquet"
    ended = await file.success(INFERRUN_CHUNK_BYTES="1024")
    assert ended.result.records.failed == 1
    (manifest,) = file.output.rglob("manifest.json")
    manifest.parent.rename(file.output / FOLDER)
    (file.output / FOLDER / "predictions" / "part-999999-left-by-a-killed-pod.parquet").write_bytes(
        b"PAR1"
    )
    return file.output


def output_of(script: str, *, place: Path) -> str:
    """Execute lines in a process of their own, whose end is no part of them: Arrow's threads may
    abort it (apache/arrow#34314)."""
    done = subprocess.run(
        [sys.executable, "-c", f"{script}\nimport os, sys\nsys.stdout.flush()\nos._exit(0)"],
        cwd=place,
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def check_rows(tool: str, *, place: Path) -> None:
    """Execute the page's lines for a tool in a process of their own, and compare the rows with what
    the model predicts."""
    columns = "import pyarrow.parquet\ncolumns = pyarrow.parquet.read_schema(parts[0]).names\n"
    printed = output_of(
        f"{lines_for(tool)}\n{columns}\nprint('ROWS', json.dumps({SHOWN[tool]}, default=str))",
        place=place,
    )
    (found,) = (line for line in printed.splitlines() if line.startswith("ROWS "))
    # Any: what the tool returns
    rows: list[dict[str, Any]] = json.loads(found.removeprefix("ROWS "))
    predicted = [(row["index"], row["prediction"]) for row in rows if row["prediction"] is not None]
    assert predicted == [(index, index + 0.5) for index in range(COUNT) if index != BAD], tool


async def test_data_frames_and_duckdb_open_the_results_as_the_page_shows(file: Machine) -> None:
    place = await results_of(file)
    for tool in ("pandas", "polars", "duckdb"):
        check_rows(tool, place=place)


IDS_AND_ERRORS = {
    "pandas": "[[row.custom_id, isinstance(row.error, dict)] for row in frame.itertuples()]",
    "polars": "[[row['custom_id'], row['error'] is not None] for row in frame.iter_rows(named=True)]",
    "duckdb": "[[custom_id, error is not None] for _, custom_id, _, error in rows]",
}


async def test_json_lines_are_opened_with_ids_as_texts_and_late_errors_as_the_page_shows(
    file: Machine,
) -> None:
    late = COUNT - 1
    file.write_rows(
        {"custom_id": f"{index:05}", "inputs": [index, "x" if index == late else 0.5]}
        for index in range(COUNT)
    )
    ended = await file.success(INFERRUN_CHUNK_BYTES="4096")
    assert ended.result.records.failed == 1
    (manifest,) = file.output.rglob("manifest.json")
    manifest.parent.rename(file.output / FOLDER)
    for tool, shown in IDS_AND_ERRORS.items():
        printed = output_of(
            f"{lines_for(tool, 'JSON lines')}\nprint(json.dumps({shown}))", place=file.output
        )
        assert json.loads(printed) == [[f"{index:05}", index == late] for index in range(COUNT)], (
            tool
        )


@pytest.mark.parametrize(
    "copied", [pytest.param(["country"], marks=pytest.mark.thorough), ["country", "dt"]]
)
async def test_other_programs_read_the_folders_of_the_input_as_the_page_shows(
    file: Machine, copied: list[str]
) -> None:
    expected = list[tuple[int, float, str]]()
    for day in ("2026-11-23", "2026-11-24"):
        folder = file.input / "data" / f"dt={day}"
        folder.mkdir()
        numbers = [float(len(expected) + at) for at in range(3)]
        parquet.write_table(
            pyarrow.table({"x": numbers, "country": ["it", "fr", "it"]}), folder / "a.parquet"
        )
        expected += [(int(number), number, day) for number in numbers]
    file.contract["input"]["file"] |= {"path": "data", "format": "parquet"}
    file.contract["output"]["file"] |= {"format": "parquet", "layout": {"partitions": "Input"}}
    file.contract |= {
        "passThroughColumns": copied,
        "tensors": {"inputs": [{"name": "input-0", "columns": ["x"]}]},
    }
    await file.success()
    (manifest,) = file.output.rglob("manifest.json")
    manifest.parent.rename(file.output / FOLDER)
    text = PAGE.read_text()
    first = re.findall(
        r"```python\n(.*?)```", text.split("## Without this project's library")[1], re.DOTALL
    )[0]
    section = text.split("## In the folders of the input")[1].split("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    shown = [
        "frame.rows(named=True)",
        "[dict(zip(('index', 'prediction', 'dt'), row)) for row in rows]",
    ]
    shown += [
        "table.to_pylist()",
        "frame.to_dict('records')",
        "pyarrow.dataset.dataset('by-country').to_table().to_pylist()",
    ]
    for block, rows in zip(blocks, shown, strict=True):
        script = f"import pyarrow.dataset\n{first}\n{block}\nprint(json.dumps({rows}, default=str))"
        printed = await asyncio.to_thread(output_of, script, place=file.output)
        found = sorted(json.loads(printed), key=lambda row: int(row["index"]))
        assert [(row["index"], row["prediction"]) for row in found] == [
            (index, value) for index, value, _ in expected
        ]
        assert [row["dt"] for row in found if "dt" in row] in ([day for *_, day in expected], [])
        assert "dt" in found[0] or block is blocks[-1]
    assert sorted(one.name for one in (file.output / "by-country").iterdir()) == [
        "country=fr",
        "country=it",
    ]
