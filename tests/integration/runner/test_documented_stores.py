"""The examples on the pages about stores work: each is valid, and is executed with a server of its
stores."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferrun.manifest import Manifest
from inferrun_runner.registry import BUILT_IN, INPUTS
from tests.integration.runner.clouds import Clouds
from tests.integration.runner.documented import valid_spec
from tests.integration.runner.pods import REPOSITORY, Machine
from tests.integration.runner.postgres_server import Postgres, postgres_server
from tests.integration.runner.s3_server import credentials, s3_server
from tests.integration.runner.servers import CountingModel, Handler
from tests.integration.runner.tables import content_of
from tests.integration.runner.web_server import web_server

pytestmark = pytest.mark.thorough

PAGE = REPOSITORY / "docs" / "reference" / "stores.md"
PAGES = PAGE.with_suffix("")
VALUES = [(1.0, 2.0), (3.5, -1.0), (10.0, 20.0)]
TABLE = ("first,second\n" + "".join(f"{a},{b}\n" for a, b in VALUES)).encode()


def examples() -> dict[str, dict[str, Any]]:  # Any: YAML
    """The configs of the pages by the label of their input, which is the name of the page."""
    found: dict[str, dict[str, Any]] = {}  # Any: YAML
    for page in PAGES.iterdir():
        (text,) = re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
        found[page.stem] = yaml.safe_load(text)
        assert page.stem in found[page.stem]["spec"]["storage"]["input"]
    return found


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A server with irises."""
    with postgres_server() as started:
        started.execute(
            "create table irises (id int primary key, sepal_length float8, sepal_width float8)"
        )
        for number, (length, width) in enumerate(VALUES):
            started.execute("insert into irises values (%s, %s, %s)", number, length, width)
        yield started


LABELS = {point.name for point in BUILT_IN if point.group == INPUTS} - {"run"} | {"krateo"}
"""The page about chains shows `run`; `krateo` is in a package of its own."""
TABLE_OF_VALUES = {
    "first": [first for first, _ in VALUES],
    "second": [second for _, second in VALUES],
}


def machine_of(folder: Path, model: CountingModel, label: str) -> Machine:
    """A run with the page's config for this input."""
    example = examples()[label]
    spec = valid_spec(example)
    kserve = {**spec["kserve"], "modelUrl": model.address}
    contract = {
        "jobId": label,
        "runId": label,
        "jobName": "inf-example",
        "kserve": kserve,
        **spec["storage"],
    }
    return Machine(folder / "run", contract=contract)


async def succeeded(machine: Machine) -> None:
    await machine.success("3 of 3 records predicted")


def predictions_in(folder: Path) -> list[object]:
    """The predictions in the parts that the manifest lists."""
    manifest = Manifest.model_validate_json((folder / "manifest.json").read_bytes())
    lines = [
        line for part in manifest.parts for line in (folder / part.file).read_text().splitlines()
    ]
    return [json.loads(line)["prediction"] for line in lines]


def test_every_store_has_an_example() -> None:
    assert set(examples()) == LABELS


@pytest.mark.parametrize("label", ["http", "sql"])
async def test_a_documented_config_for_a_database_works(
    tmp_path: Path, server: Postgres, model: CountingModel, label: str
) -> None:
    machine = machine_of(tmp_path, model, label)
    async with web_server({"body": TABLE}, has_ranges=True) as address:
        for side in ("input", "output"):
            server.mount(machine.folder / "endpoints" / side)
        if label == "http":
            machine.contract["input"]["http"]["url"] = f"{address}/rows.csv"
        await succeeded(machine)
    rows = server.execute(
        "select index, prediction from predictions where run = %s order by index", label
    )
    assert rows == [(0, 3.0), (1, 2.5), (2, 30.0)]
    (committed,) = re.findall(
        r"^    (select p\.\* .*)$", (PAGES / "sql.md").read_text(), re.MULTILINE
    )
    assert len(server.execute(committed)) >= 3


async def test_the_documented_config_for_claims_works_with_arrow(
    tmp_path: Path, model: CountingModel
) -> None:
    machine = machine_of(tmp_path, model, "file")
    (machine.input / "rows.arrow").write_bytes(content_of(TABLE_OF_VALUES, name="arrow"))
    await succeeded(machine)
    assert predictions_in(machine.output / "predictions" / "inf-example") == [3.0, 2.5, 30.0]


async def test_the_documented_config_for_buckets_works_with_parquet(
    tmp_path: Path, model: CountingModel
) -> None:
    machine = machine_of(tmp_path, model, "s3")
    async with s3_server(tmp_path / "s3") as s3:
        bucket = s3.folder / machine.contract["input"]["s3"]["bucket"]
        (bucket / "in").mkdir(parents=True)
        (bucket / "in" / "rows.parquet").write_bytes(content_of(TABLE_OF_VALUES, name="parquet"))
        for side in ("input", "output"):
            machine.contract[side]["s3"]["endpoint"] = s3.url
            credentials(machine.folder / "endpoints" / side)
        await succeeded(machine)
        assert predictions_in(bucket / "out" / "inf-example") == [3.0, 2.5, 30.0]


@pytest.mark.parametrize("label", ["gcs", "azure"])
async def test_the_documented_configs_for_other_clouds_work(
    tmp_path: Path, model: CountingModel, clouds: Clouds, label: str
) -> None:
    machine = machine_of(tmp_path, model, label)
    bucket = clouds.bucket(label)
    (tmp_path / "given" / "in").mkdir(parents=True)
    (tmp_path / "given" / "in" / "rows.parquet").write_bytes(
        content_of(TABLE_OF_VALUES, name="parquet")
    )
    bucket.upload(tmp_path / "given")
    for side in ("input", "output"):
        machine.contract[side][label] |= bucket.place
        bucket.mount(machine.folder / "endpoints" / side)
    await succeeded(machine)
    assert predictions_in(bucket.download(tmp_path / "stored") / "out" / "inf-example") == [
        3.0,
        2.5,
        30.0,
    ]


async def test_the_documented_config_for_data_handlers_works(
    tmp_path: Path, model: CountingModel, handler: Handler
) -> None:
    machine = machine_of(tmp_path, model, "krateo")
    handler.rows = [list(row) for row in VALUES]
    for side in ("input", "output"):
        machine.endpoint(side, {"server-url": handler.url})
    await succeeded(machine)
    assert handler.predictions() == [3.0, 2.5, 30.0]


def test_the_manifest_is_described() -> None:
    section = PAGE.read_text().split("\n## The manifest", 1)[1].partition("\n## ")[0]
    (example,) = re.findall(r"```json\n(.*?)```", section, re.DOTALL)
    manifest = Manifest.model_validate_json(example)
    assert json.loads(manifest.text()) == json.loads(example)
    rows = re.findall(r"^\| (`[^|]+) \|", section, re.MULTILINE)
    described = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert described == {field.alias for field in Manifest.model_fields.values()}
