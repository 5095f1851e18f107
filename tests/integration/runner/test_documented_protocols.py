"""The examples on the page about protocols work: each is valid, and is executed with a server of its protocol."""

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferrun.resources import parse_config
from inferrun.resources.validation import config_problems
from tests.conformance.protocol_worlds import PROTOCOLS
from tests.integration.runner.pods import REPOSITORY, Machine

PAGE = REPOSITORY / "docs" / "reference" / "protocols.md"
ROWS = [[1.0, 2.0], [3.5, -1.0], [10.0, 20.0]]


def examples() -> dict[str, dict[str, Any]]:  # Any: YAML
    """The configs of the page by their protocols."""
    found = (yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL))
    return {one["spec"]["kserve"]["protocolVersion"]: one for one in found}


LINES = "".join(f"{row}\n" for row in ROWS).encode()
FILES = {
    "rows.jsonl": LINES,
    "rows.jsonl.gz": gzip.compress(LINES),
    "rows.csv": ("first,second\n" + "".join(f"{a},{b}\n" for a, b in ROWS)).encode(),
}


def test_every_protocol_for_numbers_has_an_example() -> None:
    assert set(examples()) == {"v1", "v2", "grpc-v2"}


@pytest.mark.parametrize("protocol", examples())
async def test_a_documented_config_works(tmp_path: Path, protocol: str) -> None:
    example = examples()[protocol]
    assert config_problems(parse_config({**example, "metadata": {**example["metadata"], "namespace": "models"}})) == ()
    spec = example["spec"]
    async with PROTOCOLS[protocol]() as world:
        kserve = {**spec["kserve"], "modelUrl": world.server.url}
        contract = {"jobId": "uid", "jobName": "inf-example", "kserve": kserve, **spec["storage"]}
        machine = Machine(tmp_path / "run", contract=contract)
        name = spec["storage"]["input"]["file"]["path"]
        (machine.input / name).write_bytes(FILES[name])
        ended = await machine.pod()
    assert (ended.code, ended.message) == (0, "3 of 3 records predicted")
    (part,) = (machine.output / "predictions" / "inf-example" / "predictions").iterdir()
    assert [yaml.safe_load(line)["prediction"] for line in part.read_text().splitlines()] == [3.0, 2.5, 30.0]
    assert list((machine.folder / "tmp").iterdir()) == []
