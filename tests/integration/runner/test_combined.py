"""Everything at once: several Pods, columns that feed tensors and are copied, failed records, and a run that completes another."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.runner.pods import Ended, Machine
from tests.integration.runner.s3_server import credentials, s3_server
from tests.integration.runner.tensor_server import TensorServer, tensor_server

pytestmark = pytest.mark.thorough

RECORDS = 300
EVERY = 37
"""The numbers of the records that the model's datatype cannot represent are multiples of this."""

FAILED = len(range(0, RECORDS, EVERY))
MESSAGE = f"{RECORDS - FAILED} of {RECORDS} records predicted; {FAILED} failed, with their errors in the output"
TENSORS = {
    "inputs": [{"name": "pair", "columns": ["a", "b"]}, {"name": "city", "columns": ["city"]}],
    "outputs": [{"name": "label"}, {"name": "sum", "resultName": "total"}],
}
SMALL = {
    "INFERRUN_CHUNK_BYTES": "2000",
    "INFERRUN_BATCH_ROWS": "17",
    "INFERRUN_SHARDS": "3",
    "INFERRUN_CLAIM_SECONDS": "6",
}


def record(index: int) -> dict[str, Any]:  # Any: JSON
    number = "none" if index % EVERY == 0 else index
    return {"custom_id": f"c{index}", "a": number, "b": index / 4, "city": f"x{index}", "note": {"number": index}}


def expected(index: int) -> dict[str, Any]:  # Any: JSON
    """What the output says about a record, computed without the runner; without the text of its error."""
    head = {"index": index, "custom_id": f"c{index}", "note": {"number": index}}
    if index % EVERY == 0:
        return {**head, "error": "invalid_input"}
    return {**head, "prediction": {"label": f"x{index}!", "total": index + index / 4}}


@pytest.fixture
async def two() -> AsyncIterator[TensorServer]:
    async with tensor_server(is_binary=False) as server:
        yield server


@pytest.fixture(params=["file", "s3"])
async def place(
    request: pytest.FixtureRequest, tmp_path: Path, two: TensorServer
) -> AsyncIterator[tuple[Machine, Path]]:
    """A run, and the folder below which its output is."""
    kserve = {"modelName": "two", "modelUrl": two.url, "protocolVersion": "v2"}
    contract: dict[str, Any] = {"kserve": kserve, "tensors": TENSORS, "passThroughColumns": ["note"]}  # Any: JSON
    machine = Machine(tmp_path / "run", contract=contract)
    (machine.input / "rows.jsonl").write_text("".join(f"{json.dumps(record(index))}\n" for index in range(RECORDS)))
    machine.contract["input"] = {"file": {"claimName": "given", "path": "rows.jsonl"}}
    if request.param == "file":
        machine.contract["output"] = {"file": {"claimName": "made", "path": "out"}}
        yield machine, machine.output / "out"
        return
    async with s3_server(tmp_path / "s3") as s3:
        machine.contract["output"] = {"s3": s3.spec("out")}
        credentials(machine.folder / "endpoints" / "output")
        yield machine, s3.bucket / "out"


async def run(machine: Machine, name: str, **more: Any) -> list[Ended]:  # Any: JSON
    """Execute a run with three Pods at a time."""
    machine.contract |= {"jobId": name, "runId": name, "jobName": f"inf-{name}", **more}
    pods = (machine.pod(JOB_COMPLETION_INDEX=str(at), pod_uid=f"{name}-{at}", **SMALL) for at in range(3))
    return await asyncio.gather(*pods)


def results_in(folder: Path) -> list[dict[str, Any]]:  # Any: JSON
    """The results in the parts of a manifest, whose counts and error files agree with them."""
    manifest = json.loads((folder / "manifest.json").read_text())
    found = [json.loads(line) for part in manifest["parts"] for line in lines_of(folder, part["file"])]
    errors = [
        json.loads(line)
        for part in manifest["parts"]
        if "errors" in part
        for line in lines_of(folder, part["errors"]["file"])
    ]
    assert errors == [one for one in found if "error" in one]
    assert manifest["records"] == {"total": RECORDS, "completed": RECORDS - FAILED, "failed": FAILED}
    return [{**one, "error": one["error"]["code"]} if "error" in one else one for one in found]


def lines_of(folder: Path, name: str) -> list[bytes]:
    return (folder / name).read_bytes().splitlines()


async def test_several_pods_complete_what_several_pods_have_begun(
    place: tuple[Machine, Path], two: TensorServer
) -> None:
    machine, folder = place
    whole = [expected(index) for index in range(RECORDS)]
    first = await run(machine, "first")
    assert {(one.code, one.message) for one in first} == {(0, MESSAGE)}
    assert results_in(folder / "inf-first") == whole
    two.requests.clear()
    digest = first[0].result.output.sha256
    again = {"name": "first", "runId": "first", "jobName": "inf-first", "manifestSha256": digest}
    second = await run(machine, "second", retryOf=again)
    assert {(one.code, one.message) for one in second} == {(0, MESSAGE)}
    assert results_in(folder / "inf-second") == whole
    assert two.requests == []  # the failed records cannot be sent, and the others are known
    third = await run(machine, "third", retryOf={**again, "runId": "second"})
    assert {one.code for one in third} == {5}
    assert "belongs to another run (first)" in third[0].message
