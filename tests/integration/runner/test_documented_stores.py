"""The examples on the page about stores work: each is valid, and is executed with a server of its stores."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferrun.resources import parse_config
from inferrun.resources.validation import config_problems
from tests.integration.runner.pods import REPOSITORY, Machine
from tests.integration.runner.postgres_server import Postgres, postgres_server
from tests.integration.runner.servers import CountingModel
from tests.integration.runner.web_server import web_server

PAGE = REPOSITORY / "docs" / "reference" / "stores.md"
VALUES = [(1.0, 2.0), (3.5, -1.0), (10.0, 20.0)]
TABLE = ("first,second\n" + "".join(f"{a},{b}\n" for a, b in VALUES)).encode()


def examples() -> dict[str, dict[str, Any]]:  # Any: YAML
    """The configs of the page by the label of their input."""
    found = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL))
    return {next(iter(one["spec"]["storage"]["input"])): one for one in found}


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A server with irises."""
    with postgres_server() as started:
        started.execute("create table irises (id int primary key, sepal_length float8, sepal_width float8)")
        for number, (length, width) in enumerate(VALUES):
            started.execute("insert into irises values (%s, %s, %s)", number, length, width)
        yield started


@pytest.mark.parametrize("label", ["http", "sql"])
async def test_a_documented_config_works(tmp_path: Path, server: Postgres, model: CountingModel, label: str) -> None:
    example = examples()[label]
    assert config_problems(parse_config({**example, "metadata": {**example["metadata"], "namespace": "models"}})) == ()
    spec = example["spec"]
    async with web_server({"body": TABLE}, has_ranges=True) as address:
        kserve = {**spec["kserve"], "modelUrl": model.address}
        machine = Machine(
            tmp_path / "run",
            contract={"jobId": label, "runId": label, "jobName": "inf-example", "kserve": kserve, **spec["storage"]},
        )
        for side in ("input", "output"):
            server.mount(machine.folder / "endpoints" / side)
        if label == "http":
            machine.contract["input"]["http"]["url"] = f"{address}/rows.csv"
        ended = await machine.pod()
    assert (ended.code, ended.message) == (0, "3 of 3 records predicted")
    rows = server.execute("select index, prediction from predictions where run = %s order by index", label)
    assert rows == [(0, 3.0), (1, 2.5), (2, 30.0)]
    (committed,) = re.findall(r"^    (select p\.\* .*)$", PAGE.read_text(), re.MULTILINE)
    assert len(server.execute(committed)) >= 3
