"""Results in the folders of the input: the same rows as without, on a claim and in a bucket, and
what cannot be had."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote, unquote

import orjson
import pyarrow
import pyarrow.dataset
import pytest
from pyarrow import parquet

from inferrun.results import read_results
from tests.integration.runner.pods import Ended, Machine
from tests.integration.runner.s3_server import ACCESS_KEY, SECRET_KEY, credentials, s3_server
from tests.integration.runner.servers import CountingModel
from tests.integration.runner.test_reading_results import run_of

SMALL = {"INFERRUN_CHUNK_BYTES": "1024", "INFERRUN_BATCH_ROWS": "50"}
PARTITIONS = {"partitions": "Input"}
VALUES = ("__HIVE_DEFAULT_PARTITION__", "2026-11-23", quote("a/b=c%?", safe=""), "ä ö", "z+1")


@dataclass
class Place:
    """A store with an input and outputs, and the folder that has its content."""

    label: str
    machine: Machine
    content: Path
    spec: dict[str, Any]  # Any: a storage object
    access: dict[str, Any] = field(default_factory=dict)  # Any: arguments
    expected: list[tuple[str, float]] = field(default_factory=list)
    """The folder and the value of each record, in the order of the input."""

    def fill(self, seed: int, form: str, *, rows: int = 40) -> None:
        """Store files of up to that many rows in nested partitions, some of which are small enough
        to share a chunk."""
        random = Random(seed)  # noqa: S311  data of a test
        for value in sorted(VALUES):
            for hour in (1, 2):
                for at in range(random.randint(1, 4)):
                    folder = f"dt={value}/hour={hour}"
                    numbers = [
                        float(len(self.expected) + one) for one in range(random.randint(1, rows))
                    ]
                    path = self.content / "data" / folder / f"{at}.{form}"
                    path.parent.mkdir(parents=True, exist_ok=True)
                    if form == "parquet":
                        parquet.write_table(
                            pyarrow.table({"x": numbers}),
                            path,
                            row_group_size=random.randint(1, rows),
                        )
                    else:
                        path.write_text(
                            "".join(f'{{"inputs": [{number}]}}\n' for number in numbers)
                        )
                    self.expected += [(folder, number) for number in numbers]
        self.machine.contract["input"] = {
            self.label: {**self.spec, "path": "data/", "format": form}
        }
        self.machine.contract["output"] = {
            self.label: {**self.spec, "path": "plain", "format": form}
        }

    def divide(self, path: str = "divided", **more: Any) -> None:  # Any: JSON
        """Write the next results into the folders of the input."""
        self.machine.contract["output"][self.label] |= {
            "path": path,
            "layout": {**PARTITIONS, **more},
        }

    def run_folder(self, path: str) -> Path:
        """The folder of the run in an output."""
        return self.content / path / str(self.machine.contract["jobName"])

    def manifest(self, path: str) -> list[dict[str, Any]]:  # Any: JSON
        """The parts; they are the only files of results."""
        folder = self.run_folder(path)
        parts: list[dict[str, Any]] = json.loads((folder / "manifest.json").read_text())["parts"]
        listed = {one["file"] for part in parts for one in (part, part.get("errors")) if one}
        kinds = [folder / "predictions", folder / "errors"]
        assert {
            str(one.relative_to(folder))
            for kind in kinds
            for one in kind.rglob("*")
            if one.is_file()
        } == listed
        return parts

    def folders(self, path: str) -> list[str]:
        """The partitions of the parts in the order of the manifest, each once."""
        return list(dict.fromkeys(str(Path(part["file"]).parent) for part in self.manifest(path)))

    def rows(self, ended: Ended) -> list[tuple[int, float | None, bool]]:
        """The results as the client reads them."""
        found = read_results(run_of(self.machine, ended), **self.access)
        return [(row["index"], row["prediction"], row["error"] is not None) for row in found]

    def expected_folders(self) -> list[str]:
        """The partitions in the order of the input."""
        return [
            f"predictions/{one}" for one in dict.fromkeys(folder for folder, _ in self.expected)
        ]


@pytest.fixture(params=["file", "s3"])
async def place(
    request: pytest.FixtureRequest, machine: Machine, tmp_path: Path
) -> AsyncIterator[Place]:
    if request.param == "file":
        machine.input.rmdir()
        machine.input.symlink_to(machine.output)
        yield Place(
            "file", machine, machine.output, {"claimName": "data"}, {"directory": machine.output}
        )
        return
    for side in ("input", "output"):
        credentials(machine.folder / "endpoints" / side)
    async with s3_server(tmp_path / "s3") as server:
        key = {"accessKeyId": ACCESS_KEY, "secretAccessKey": SECRET_KEY}
        yield Place("s3", machine, server.bucket, server.spec(""), {"credentials": key})


@pytest.mark.parametrize("form", ["parquet", "jsonl"])
@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_each_file_has_the_rows_of_the_partition_whose_name_it_has(
    place: Place, model: CountingModel, form: str, seed: int
) -> None:
    random = Random(seed)  # noqa: S311  data of a test
    place.fill(seed, form)
    model.reject({int(number) for _, number in place.expected if random.random() < 0.1})
    plain = place.rows(await place.machine.pod(**SMALL))
    place.divide(partSize=random.choice([1, 3000, "128Mi"]))
    ended = await place.machine.pod(INFERRUN_CHUNK_BYTES=str(random.randint(200, 20_000)))
    assert place.rows(ended) == plain
    assert place.folders("divided") == place.expected_folders()
    parts = place.manifest("divided")
    assert [part["first"] for part in parts] == [
        sum(one["records"] for one in parts[:at]) for at in range(len(parts))
    ]
    for part in parts:
        folders = {folder for folder, _ in place.expected[part["first"] :][: part["records"]]}
        assert {str(Path(part["file"]).parent)} == {f"predictions/{one}" for one in folders}
        assert "errors" not in part or Path(part["errors"]["file"]).parent == Path(
            "errors", *folders
        )
    if form == "parquet":
        hive = pyarrow.dataset.partitioning(
            pyarrow.schema([("dt", pyarrow.string()), ("hour", pyarrow.int32())]), flavor="hive"
        )
        folder = place.run_folder("divided") / "predictions"
        found = (
            pyarrow.dataset.dataset(folder, format="parquet", partitioning=hive)
            .to_table()
            .sort_by("index")
        )
        without = (
            pyarrow.dataset.dataset(place.run_folder("plain") / "predictions")
            .to_table()
            .sort_by("index")
        )
        for name in ("index", "prediction"):
            assert found[name].equals(without[name])
        assert found["error"].is_null().equals(without["error"].is_null())
        values = [folder.split("/") for folder, _ in place.expected]
        texts = [unquote(dt.removeprefix("dt=")) for dt, _ in values]
        assert found["dt"].to_pylist() == [None if one == VALUES[0] else one for one in texts]
        assert found["hour"].to_pylist() == [int(hour.removeprefix("hour=")) for _, hour in values]


async def test_pods_that_share_a_run_store_its_partitions_together(place: Place) -> None:
    place.fill(4, "parquet")
    place.divide()
    environment = {**SMALL, "INFERRUN_SHARDS": "2", "INFERRUN_CLAIM_SECONDS": "3"}
    pods = [
        await place.machine.start(environment={**environment, "JOB_COMPLETION_INDEX": str(at)})
        for at in range(2)
    ]
    ended = [await pod.end() for pod in pods]
    assert [one.code for one in ended] == [0, 0], ended
    expected = [(index, number, False) for index, (_, number) in enumerate(place.expected)]
    assert place.rows(ended[0]) == expected
    assert place.folders("divided") == place.expected_folders()


async def test_a_retry_divides_what_the_retried_run_has_not(
    place: Place, model: CountingModel
) -> None:
    place.fill(5, "jsonl", rows=3)
    model.reject({7})
    before = await place.machine.success()
    model.accept()
    place.machine.retry(before)
    place.divide("plain")
    ended = await place.machine.pod()
    assert place.rows(ended) == [
        (index, number, False) for index, (_, number) in enumerate(place.expected)
    ]
    assert set(model.rows) == {7}
    assert place.folders("plain") == place.expected_folders()


async def test_another_run_reads_the_results_of_all_partitions(place: Place) -> None:
    place.fill(6, "parquet")
    place.divide()
    ended = await place.machine.pod(**SMALL)
    output = place.machine.contract["output"]
    assert ended.result.output is not None
    place.machine.contract |= {
        "input": {"run": {"name": "sums"}},
        "inputRun": {
            "name": "sums",
            "runId": place.machine.contract["runId"],
            "jobName": place.machine.contract["jobName"],
            "manifestSha256": ended.result.output.sha256,
            "output": output,
        },
        "output": {place.label: {**place.spec, "path": "second"}},
        "runId": "second",
        "jobName": "inf-second",
    }
    await place.machine.success()
    lines = [
        line
        for part in place.manifest("second")
        for line in (place.run_folder("second") / part["file"]).read_bytes().splitlines()
    ]
    assert [orjson.loads(line)["prediction"] for line in lines] == [
        number for _, number in place.expected
    ]


@pytest.mark.parametrize("is_dry", [True, False])
async def test_folders_that_the_input_does_not_have_are_reported_before_the_first_request(
    file: Machine, model: CountingModel, *, is_dry: bool
) -> None:
    file.write_rows([[1.0]])
    file.contract["output"]["file"]["layout"] = PARTITIONS
    file.contract["dryRun"] = is_dry
    ended = await file.failure(3)
    assert ended.message.startswith(
        "layout.partitions: rows.jsonl of input.file is in no folder such as dt=2026-11-23"
    )
    file.contract["input"] = {"http": {"url": "http://127.0.0.1:9/rows.jsonl"}}
    ended = await file.failure(2)
    assert (
        ended.message
        == "output.file.layout.partitions: an input of the label http has no partitions; remove the field"
    )
    file.contract["output"]["file"]["layout"] = {**PARTITIONS, "single": True}
    await file.failure(2, "one file cannot be in several folders; remove it or layout.partitions")
    assert not model.rows
