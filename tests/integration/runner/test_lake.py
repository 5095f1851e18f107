"""Runs that append to a table, with the real program: killed before and after the transaction that
is their commit."""

import json
import signal
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import DeltaTable, write_deltalake

from inferrun.plugins.columns import ALL_COLUMNS
from inferrun_runner.contract_file import only_label, read_contract
from inferrun_runner.program.execution import store_context
from inferrun_runner.registry import Registry
from inferrun_runner.settings import read_settings
from tests.conformance.worlds import iceberg_catalog
from tests.integration.runner.pods import Machine, until
from tests.integration.runner.s3_server import S3Server, credentials

_PAUSING = """
import os, pathlib, time
from {module} import {owner} as owner

STEP, MARKER = os.environ["PAUSE_STEP"], pathlib.Path(os.environ["PAUSE_MARKER"])
commit = owner.{method}


def pause(step):
    if step == STEP:
        MARKER.touch()
        while MARKER.exists():
            time.sleep(0.02)


def paused(*arguments, **options):
    pause("before")
    found = commit(*arguments, **options)
    pause("after")
    return found


owner.{method} = paused
"""
"""A `sitecustomize` module that pauses the transaction of a table, as a server that responds late
does."""

_COMMITS = {
    "delta": {"module": "deltalake", "owner": "DeltaTable", "method": "create_write_transaction"},
    "iceberg": {
        "module": "pyiceberg.table",
        "owner": "Transaction",
        "method": "commit_transaction",
    },
}


class Lake:
    """A run that appends to a table in a bucket."""

    def __init__(self, machine: Machine, s3: S3Server, label: str) -> None:
        self.machine, self.label = machine, label
        self._s3 = s3
        machine.write_rows([n, 0.5] for n in range(300))
        secret = machine.folder / "endpoints" / "output"
        credentials(secret)
        more = {"table": "lake.made"} if label == "iceberg" else {}
        if label == "iceberg":
            self._catalog = iceberg_catalog(s3, secret)
        machine.contract["output"] = {label: {**s3.spec("made"), **more}}

    def pausing(self, step: str, folder: Path) -> dict[str, str]:
        """The environment of a Pod that pauses before or after its transaction, as long as the file
        `paused` exists."""
        (folder / "sitecustomize.py").write_text(_PAUSING.format(**_COMMITS[self.label]))
        return {
            "PYTHONPATH": str(folder),
            "PAUSE_STEP": step,
            "PAUSE_MARKER": str(folder / "paused"),
            "INFERRUN_CHUNK_BYTES": "1024",
        }

    async def is_committed(self, *, is_final: bool = False) -> bool:
        """Ask the store, as the control plane does if a Pod has left no result; finally: abort the
        run if it is not committed."""
        settings = read_settings(self.machine.environment_of_next_pod())
        contract, registry = read_contract(settings.contract), Registry()
        label, spec = only_label(contract.output, side="output")
        context = store_context(contract, settings, registry, ALL_COLUMNS)
        async with registry.output_store(label)(spec, context) as store:
            ask = store.abilities.abort if is_final else store.abilities.find_commit
            assert ask is not None
            return await ask() is not None

    def rows(self) -> list[tuple[Any, ...]]:  # Any: the values of a table
        """Index and prediction of all rows, sorted."""
        if self.label == "iceberg":
            table = self._catalog.load_table("lake.made").scan().to_arrow()
        else:
            table = DeltaTable(str(self._s3.bucket / "made")).to_pyarrow_table()
        return sorted((row["index"], row["prediction"]) for row in table.to_pylist())


ROWS = [(n, n + 0.5) for n in range(300)]


@pytest.fixture(params=_COMMITS)
def lake(request: pytest.FixtureRequest, file: Machine, s3: S3Server) -> Lake:
    return Lake(file, s3, request.param)


@pytest.mark.parametrize("step", ["before", "after"])
async def test_a_run_that_is_killed_at_its_transaction_is_appended_once(
    lake: Lake, tmp_path: Path, step: str
) -> None:
    pod = await lake.machine.start(environment=lake.pausing(step, tmp_path))
    await until((tmp_path / "paused").exists, seconds=120)
    pod.signal(signal.SIGKILL)
    assert (await pod.end()).code == -signal.SIGKILL
    assert await lake.is_committed() == (step == "after")
    assert lake.rows() == (ROWS if step == "after" else [])
    for _ in range(2):
        await lake.machine.success("300 of 300 records predicted", INFERRUN_CHUNK_BYTES="1024")
        assert lake.rows() == ROWS


async def test_two_pods_at_once_append_once(lake: Lake, tmp_path: Path) -> None:
    late = await lake.machine.start(environment=lake.pausing("before", tmp_path))
    await until((tmp_path / "paused").exists, seconds=120)
    ended = [await lake.machine.pod(INFERRUN_CHUNK_BYTES="1024")]
    (tmp_path / "paused").unlink()
    ended.append(await late.end())
    assert [one.code for one in ended] == [0, 0], [one.stderr for one in ended]
    assert lake.rows() == ROWS


async def test_a_pod_that_was_believed_lost_cannot_append_after_the_final_verification(
    lake: Lake, tmp_path: Path
) -> None:
    late = await lake.machine.start(environment=lake.pausing("before", tmp_path))
    await until((tmp_path / "paused").exists, seconds=120)
    assert not await lake.is_committed(is_final=True)
    (tmp_path / "paused").unlink()
    ended = await late.end()
    assert (ended.code, "was aborted" in ended.message) == (5, True), ended.message
    assert lake.rows() == []


async def test_a_run_reads_a_table_in_a_bucket_at_a_version_and_keeps_its_columns(
    machine: Machine, s3: S3Server
) -> None:
    table = pyarrow.table(
        {"custom_id": [f"r{n}" for n in range(300)], "a": range(300), "b": [0.5] * 300}
    )
    write_deltalake(str(s3.bucket / "given"), table)
    write_deltalake(str(s3.bucket / "given"), table.slice(0, 7), mode="append")
    for side in ("input", "output"):
        credentials(machine.folder / "endpoints" / side)
    machine.contract["input"] = {"delta": s3.spec("given", version=0)}
    machine.contract["output"] = {"delta": s3.spec("made")}
    machine.contract["passThroughColumns"] = ["a"]
    machine.contract["tensors"] = {"inputs": [{"name": "input-0", "columns": ["a", "b"]}]}
    ended = await machine.process(INFERRUN_CHUNK_BYTES="100")
    assert (ended.code, ended.message) == (0, "300 of 300 records predicted"), ended.stderr
    folder = s3.bucket / "made" / "_inferrun" / "inf-sums-5be07ada"
    plan = json.loads((folder / "run.json").read_bytes())
    assert [one[0::2][:2] for one in plan["objects"]] == [["s3://records/given", "0"]]
    assert len(plan["chunks"]) > 3
    rows = DeltaTable(str(s3.bucket / "made")).to_pyarrow_table().sort_by("index").to_pylist()
    assert [(row["custom_id"], row["a"], row["prediction"]) for row in rows] == [
        (f"r{n}", n, n + 0.5) for n in range(300)
    ]


async def test_a_table_has_no_folders_of_the_input(file: Machine) -> None:
    file.write_rows([[1.0]])
    file.contract["output"] = {
        "delta": {"claimName": "made", "path": "table", "layout": {"partitions": "Input"}}
    }
    await file.failure(
        2, 'layout.partitions is "Input"; it is for the outputs file and s3; remove it'
    )


async def test_a_folder_of_a_table_has_no_signs_that_nobody_sees(file: Machine) -> None:
    file.write_rows([[1.0]])
    file.contract["output"] = {"delta": {"claimName": "made", "path": "ta\u200bble"}}
    await file.failure(2, "output.delta.path", "must be relative to the claim or bucket")


async def test_an_address_that_runs_must_not_reach_is_refused(machine: Machine) -> None:
    for side in ("input", "output"):
        credentials(machine.folder / "endpoints" / side)
    (machine.folder / "endpoints" / "input" / "catalogUri").write_text(
        "http://169.254.169.254/catalog"
    )
    place = {
        "bucket": "records",
        "endpoint": "http://169.254.169.254",
        "credentialsRef": {"name": "key"},
    }
    machine.contract["output"] = {"file": {"claimName": "made", "path": "results"}}
    for label, spec, field in (
        ("delta", {**place, "path": "given"}, "endpoint"),
        ("iceberg", {"table": "lake.given", "credentialsRef": {"name": "key"}}, "catalog.uri"),
    ):
        machine.contract["input"] = {label: spec}
        ended = await machine.pod()
        assert f"input.{label}.{field}: the server's address is" in ended.message
    iceberg_catalog(
        S3Server("http://127.0.0.1:1", machine.folder / "s3"),
        machine.folder / "endpoints" / "input",
    )
    # neither the database nor Amazon has an address to check
    ended = await machine.pod(INFERRUN_ALLOWED_ADDRESSES="")
    assert ended.message == "input.iceberg.table: there is no table 'lake.given'"
