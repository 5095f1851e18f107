"""The examples of typed data, executed as they are: a partitioned dataset becomes prompts, and
images become tensors."""

import asyncio
import datetime
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.integration.runner.ml_server import find_python, ml_server
from tests.integration.runner.openai_server import llama_server
from tests.integration.runner.pods import REPOSITORY, Machine
from tests.integration.runner.s3_server import credentials, s3_server

pytestmark = pytest.mark.thorough

EXAMPLES = REPOSITORY / "examples"
DAYS = ("2026-11-22", "2026-11-23")


def machine_of(folder: Path, name: str, *, model_url: str, **more: Any) -> Machine:
    """A run with the config of an example, but for the address of the model."""
    spec = yaml.safe_load((EXAMPLES / name / "config.yaml").read_text())["spec"]
    spec["kserve"]["modelUrl"] = model_url
    return Machine(
        folder,
        contract={"jobId": "uid", "jobName": f"inf-{name}", **spec.pop("storage"), **spec, **more},
    )


def only_table(folder: Path) -> tuple[Path, pa.Table]:
    """The only file of results, and its rows."""
    (path,) = folder.iterdir()
    return path, pq.read_table(path)


def printed(program: str, *arguments: str) -> bytes:
    """What a program of the examples prints."""
    return subprocess.run(
        [sys.executable, str(EXAMPLES / program), *arguments], check=True, capture_output=True
    ).stdout


def types_shown(path: Path) -> dict[str, str]:
    """What the examples' program says about the columns of a file."""
    lines = [
        line.split()
        for line in printed("show_table.py", str(path)).decode().splitlines()
        if "[pyarrow]" in line
    ]
    return {line[0]: " ".join(line[1:]) for line in lines}


async def test_a_partitioned_dataset_becomes_one_typed_table_through_a_language_model(
    tmp_path: Path,
) -> None:
    async with s3_server(tmp_path / "s3") as s3, llama_server(tmp_path) as url:
        machine = machine_of(
            tmp_path / "run", "tickets", model_url=url, parameters={"product": "Iris"}
        )
        for day in DAYS:
            path = s3.bucket / "tickets" / f"dt={day}" / "part-0.parquet"
            path.parent.mkdir(parents=True)
            path.write_bytes(printed("tickets/make_tickets.py", day, "8"))
        for side in ("input", "output"):
            machine.contract[side]["s3"]["endpoint"] = s3.url
            credentials(machine.folder / "endpoints" / side)
        ended = await machine.process()
        assert (ended.code, ended.message) == (0, "16 of 16 records predicted"), ended.stderr
        path, table = only_table(s3.bucket / "sorted" / "inf-tickets" / "predictions")
    shown = {
        name: types_shown(path)[name] for name in ("dt", "id", "opened", "price", "team", "urgent")
    }
    assert shown == {
        "dt": "date32[day][pyarrow]",
        "id": "int64[pyarrow]",
        "opened": "timestamp[us, tz=UTC][pyarrow]",
        "price": "decimal128(9, 2)[pyarrow]",
        "team": "string[pyarrow]",
        "urgent": "bool[pyarrow]",
    }
    days = [datetime.date.fromisoformat(day) for day in DAYS for _ in range(8)]
    assert table["dt"].to_pylist() == days
    assert table["id"].to_pylist() == [
        day.toordinal() * 1_000 + at % 8 for at, day in enumerate(days)
    ]
    assert set(table["team"].to_pylist()) <= {"web", "app"}
    assert set(table["urgent"].to_pylist()) <= {True, False}
    assert table["error"].null_count == table.num_rows


async def test_images_of_a_folder_become_a_tensor_and_the_digits_that_they_show(
    tmp_path: Path,
) -> None:
    async with ml_server(tmp_path / "models") as server:
        machine = machine_of(tmp_path / "run", "images", model_url=server.rest)
        draw = (
            find_python(),
            str(EXAMPLES / "model-server" / "draw.py"),
            "60",
            str(machine.input / "digits"),
        )
        assert await (await asyncio.create_subprocess_exec(*draw)).wait() == 0
        ended = await machine.process()
    assert (ended.code, ended.message) == (0, "60 of 60 records predicted"), ended.stderr
    path, table = only_table(machine.output / "recognized" / "inf-images" / "predictions")
    assert types_shown(path)["prediction"] == "int64[pyarrow]"
    digits = [int(name[0]) for name in table["name"].to_pylist()]
    right = sum(
        seen == digit for seen, digit in zip(table["prediction"].to_pylist(), digits, strict=True)
    )
    assert right >= 54, "the model recognizes nine of ten of its own training images"
