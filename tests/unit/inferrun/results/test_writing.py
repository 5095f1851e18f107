"""Results as files: each format has the same rows, and a file is there only when it is complete."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import ipc, parquet

from inferrun import parse_run
from inferrun.results import (
    PackageMissing,
    PredictedRows,
    ResultsChanged,
    ResultsError,
    read_results,
)
from inferrun.results.access import load
from inferrun.results.writing import write_results
from tests.unit.inferrun.results.committed_folder import JOB, commit_folder

ERROR = {"code": "rejected", "message": 'it is "bad", \x1b[31m', "attempts": 1}
ROWS: list[dict[str, Any]] = [
    {"index": 0, "custom_id": "a,b", "prediction": {"label": "x", "score": 0.5}, "error": None},
    {"index": 1, "custom_id": None, "prediction": None, "error": ERROR},
    {"index": 2, "custom_id": "c", "prediction": {"label": "y\n", "score": 1.0}, "error": None},
]


@pytest.fixture
def results(tmp_path: Path) -> PredictedRows:
    lines = [
        json.dumps({key: value for key, value in row.items() if value is not None}) + "\n"
        for row in ROWS
    ]
    parts = [(("".join(lines[:2])).encode(), 2, 1), (lines[2].encode(), 1, 0)]
    output = {"file": {"claimName": "data", "path": "out"}}
    run = {
        "metadata": {"name": "run"},
        "spec": {"configRef": {"name": "config"}},
        "status": commit_folder(tmp_path / "out", parts, output=output),
    }
    return read_results(parse_run(run), directory=tmp_path)


def test_each_kind_of_file_has_the_rows(results: PredictedRows, tmp_path: Path) -> None:
    paths = {
        suffix: tmp_path / f"results.{suffix}" for suffix in ("jsonl", "csv", "parquet", "arrow")
    }
    for path in paths.values():
        write_results(results, path)
    assert [json.loads(line) for line in paths["jsonl"].read_text().splitlines()] == ROWS
    assert parquet.read_table(paths["parquet"]).to_pylist() == ROWS
    assert ipc.open_file(paths["arrow"]).read_all().to_pylist() == ROWS
    with paths["csv"].open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["custom_id"] for row in rows] == ["a,b", "", "c"]
    assert [row["prediction"] and json.loads(row["prediction"]) for row in rows] == [
        {"label": "x", "score": 0.5},
        "",
        {"label": "y\n", "score": 1.0},
    ]
    assert json.loads(rows[1]["error"]) == ERROR


def test_a_file_of_another_kind_and_one_of_results_that_changed_are_not_written(
    results: PredictedRows, tmp_path: Path
) -> None:
    with pytest.raises(
        ResultsError, match=r"'results\.xlsx' has no known extension; allowed: \.jsonl, \.csv"
    ):
        write_results(results, tmp_path / "results.xlsx")
    (tmp_path / "out" / JOB / "predictions" / "part-000001.jsonl").unlink()
    with pytest.raises(ResultsChanged):
        write_results(results, tmp_path / "results.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_errors_alone_are_a_table_of_their_own(results: PredictedRows, tmp_path: Path) -> None:
    write_results(results.errors, tmp_path / "errors.parquet")
    found = parquet.read_table(tmp_path / "errors.parquet")
    assert found.schema.names == [
        "index",
        "custom_id",
        "error_code",
        "error_message",
        "error_attempts",
    ]
    assert found.to_pylist() == list(results.errors)
    assert found.schema.field("error_attempts").type == pyarrow.int64()


def test_a_package_that_is_missing_is_named_with_its_extra() -> None:
    with pytest.raises(
        PackageMissing, match=r"no_such_package is not installed: pip install 'inferrun\[polars\]'"
    ):
        load("no_such_package.frames", extra="polars")


def test_a_file_with_commas_has_bytes_in_the_form_of_json(tmp_path: Path) -> None:
    lines = [
        {"index": index, "prediction": value}
        for index, value in enumerate(({"b64": "/wA="}, {"b64": "gA=="}))
    ]
    parts = [("".join(json.dumps(one) + "\n" for one in lines).encode(), 2, 0)]
    status = commit_folder(
        tmp_path / "out", parts, output={"file": {"claimName": "data", "path": "out"}}
    )
    run = {"metadata": {"name": "run"}, "spec": {"configRef": {"name": "config"}}, "status": status}
    write_results(read_results(parse_run(run), directory=tmp_path), tmp_path / "results.csv")
    with (tmp_path / "results.csv").open(newline="") as file:
        assert [json.loads(row["prediction"]) for row in csv.DictReader(file)] == [
            one["prediction"] for one in lines
        ]


def test_no_number_is_rounded_and_an_empty_text_is_not_null(tmp_path: Path) -> None:
    lines = [
        b'{"index":0,"wide":1267650600228229401496703205376,"price":0.1000000000000000000001,"text":"","prediction":1}\n',
        b'{"index":1,"wide":null,"price":2,"text":null,"prediction":2}\n',
    ]
    status = commit_folder(
        tmp_path / "out",
        [(b"".join(lines), 2, 0)],
        output={"file": {"claimName": "data", "path": "out"}},
    )
    run = {"metadata": {"name": "run"}, "spec": {"configRef": {"name": "config"}}, "status": status}
    results = read_results(parse_run(run), directory=tmp_path)
    for suffix in ("csv", "jsonl", "parquet"):
        write_results(results, tmp_path / f"results.{suffix}")

    assert next(iter(results))["wide"] == 2**100
    table = parquet.read_table(tmp_path / "results.parquet").drop_columns(["error"])
    assert table.to_pylist()[0] | {"prediction": 1} == {
        "index": 0,
        "wide": str(2**100),
        "price": "0.1000000000000000000001",
        "text": "",
        "prediction": 1,
    }
    assert lines[0][10:-2] in (tmp_path / "results.jsonl").read_bytes().splitlines()[0]
    assert (tmp_path / "results.csv").read_text().splitlines() == [
        "index,wide,price,text,prediction,error",
        f'0,{2**100},0.1000000000000000000001,"",1,',
        "1,,2,,2,",
    ]
