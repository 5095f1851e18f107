"""Tables of Delta and Iceberg that Spark wrote: what is read, what can be appended to, what is
refused before a request."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from deltalake import DeltaTable
from pyarrow import dataset, parquet

from inferrun.plugins import OutputError, StoredPart
from inferrun_lake.delta import DeltaRunTable
from inferrun_lake.output import TableVerdict
from tests.conformance.worlds import iceberg_catalog
from tests.foreign.software import files_of, readings_of
from tests.foreign.values import canonical, plain
from tests.integration.runner.openai_server import OpenAiServer
from tests.integration.runner.pods import Machine
from tests.integration.runner.s3_server import S3Server

DELTA = files_of("spark-delta")

REFUSED = {
    "clustering": "clustering, domainMetadata",
    "computed-columns": "allowColumnDefaults, generatedColumns, identityColumns",
    "constraints": "checkConstraints",
    "iceberg-compat-1": "columnMapping, icebergCompatV1",
    "iceberg-compat-3": "columnMapping, domainMetadata, icebergCompatV3, rowTracking",
    "in-commit-timestamps": "inCommitTimestamp",
    "mapping-removed": "checkpointProtection",
    "mapping-set-later": "columnMapping",
    "row-tracking": "domainMetadata, rowTracking",
    "type-widening": "typeWidening",
    "vacuum-protocol-check": "vacuumProtocolCheck",
    "variant-shredded": "variantShredding-preview",
}
APPENDED = ("change-data-feed", "dates", "timestamp-ntz", "upgraded", "v2-checkpoint", "variant")


def copied(name: str, folder: Path) -> Path:
    """A table of Spark's that a test may change."""
    return Path(shutil.copytree(DELTA / f"{name}.delta", folder / name))


@pytest.mark.parametrize("name", APPENDED)
def test_tables_whose_features_ask_nothing_of_an_appended_file_are_appended_to(
    name: str, tmp_path: Path
) -> None:
    place = copied(name, tmp_path)
    before = {
        one["path"] for one in pyarrow.table(DeltaTable(str(place)).get_add_actions()).to_pylist()
    }
    (place / "_inferrun").mkdir()
    part = place / "_inferrun" / "part.parquet"
    parquet.write_table(pyarrow.table({"id": [77]}), part)
    run = DeltaRunTable(str(place), {}, run="run")
    run.prepare(pyarrow.schema([pyarrow.field("id", pyarrow.int64())]))
    assert (
        run.decide(TableVerdict.COMMITTED, [StoredPart(part.name, part.stat().st_size, 1)])
        == TableVerdict.COMMITTED
    )
    after = pyarrow.table(DeltaTable(str(place)).get_add_actions()).to_pylist()
    assert {one["path"] for one in after} - before == {"_inferrun/part.parquet"}


@pytest.mark.parametrize("name", REFUSED)
def test_features_that_ask_more_of_writers_are_named_before_a_record_is_sent(
    name: str, tmp_path: Path
) -> None:
    run = DeltaRunTable(str(copied(name, tmp_path)), {}, run="run")
    with pytest.raises(OutputError) as raised:
        run.prepare(pyarrow.schema([pyarrow.field("id", pyarrow.int64())]))
    assert f"the table feature {REFUSED[name]} is not implemented for output; remove it" in str(
        raised.value
    )


def test_a_feature_that_comes_while_a_run_is_under_way_ends_it(tmp_path: Path) -> None:
    place = copied("upgraded", tmp_path)
    run = DeltaRunTable(str(place), {}, run="run")
    run.prepare(pyarrow.schema([pyarrow.field("id", pyarrow.int64())]))
    require(place, "typeWidening")
    with pytest.raises(
        OutputError, match=r"Unsupported table features required: \[TypeWidening\]; remove it"
    ):
        run.decide(TableVerdict.COMMITTED, [StoredPart("part.parquet", 1, 1)])


def require(place: Path, feature: str) -> None:
    """Add an entry to a log by which the table requires a feature."""
    log = place / "_delta_log"
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": [feature],
        "writerFeatures": [feature],
    }
    (log / f"{len(list(log.glob('*.json'))):020}.json").write_text(
        json.dumps({"protocol": protocol})
    )


@pytest.mark.parametrize(
    ("feature", "message"),
    [
        (
            "catalogManaged",
            "table feature catalogManaged: only the catalog knows the newest rows; remove it",
        ),
        ("ofTheFuture", "Feature 'ofTheFuture' is not supported; remove it"),
    ],
)
async def test_a_feature_that_is_unknown_is_refused_for_input_and_output(
    feature: str, message: str, tmp_path: Path, llm: OpenAiServer
) -> None:
    place = copied("upgraded", tmp_path)
    require(place, feature)
    ended = await ran(Machine(tmp_path / "run", contract=contract(llm, "upgraded")), tmp_path)
    assert (ended.code, message in ended.message) == (3, True), ended.message
    with pytest.raises(OutputError, match=message.split(";", maxsplit=1)[0]):
        DeltaRunTable(str(place), {}, run="run").prepare(pyarrow.schema([]))
    assert not llm.prompts


async def test_a_shallow_clone_is_refused(tmp_path: Path, llm: OpenAiServer) -> None:
    place = copied("upgraded", tmp_path)
    log = place / "_delta_log"
    add = {
        "path": f"{DELTA.as_uri()}/x.parquet",
        "partitionValues": {},
        "size": 1,
        "modificationTime": 0,
        "dataChange": True,
    }
    (log / f"{len(list(log.glob('*.json'))):020}.json").write_text(json.dumps({"add": add}))
    ended = await ran(Machine(tmp_path / "run", contract=contract(llm, "upgraded")), tmp_path)
    assert "the table is a shallow clone, with files of another table" in ended.message
    assert not llm.prompts


async def test_an_older_version_is_read_with_the_columns_that_it_had(
    tmp_path: Path, llm: OpenAiServer
) -> None:
    machine = Machine(tmp_path / "run", contract=contract(llm, "mapping-by-id.delta", version=1))
    ended = await ran(machine, DELTA)
    assert ended.message == "1 of 1 records predicted"
    (part,) = (machine.run_folder / "predictions").iterdir()
    row = json.loads(part.read_bytes())
    assert (row["id"], row["a"], row["b"], row["p"]) == (1, 0.5, 10.0, "x y%")


def contract(llm: OpenAiServer, path: str, **more: object) -> dict[str, Any]:  # Any: JSON
    """A run that copies all columns."""
    return {
        "jobId": "uid",
        "jobName": "inf-copied",
        "kserve": {"modelUrl": llm.url, "modelName": "tiny", "protocolVersion": "openai"},
        "request": {"prompt": "any"},
        "joinSource": "Input",
        "input": {"delta": {"claimName": "given", "path": path, **more}},
        "output": {"file": {"claimName": "made", "path": "out", "format": "jsonl"}},
    }


async def ran(machine: Machine, given: Path) -> Any:  # Any: what a Pod leaves
    """Run it on the tables in a folder."""
    machine.input.rmdir()
    machine.input.symlink_to(given)
    return await machine.pod()


ICEBERG = files_of("spark-iceberg")


def registered(
    name: str, server: S3Server, secret: Path, *, more: Mapping[str, object] = {}
) -> dict[str, Any]:  # Any: JSON
    """Put a table of Spark's into the bucket and the catalog, and return its storage object."""
    shutil.copytree(ICEBERG / name, server.bucket / name)
    newest = max(
        (server.bucket / name / "metadata").glob("v*.metadata.json"),
        key=lambda one: int(one.name[1:].split(".", 1)[0]),
    )
    newest.write_text(json.dumps({**json.loads(newest.read_text()), **more}))
    iceberg_catalog(server, secret).register_table(
        "lake.spark", f"s3://{server.bucket.name}/{name}/metadata/{newest.name}"
    )
    return {"table": "lake.spark", "endpoint": server.url, "credentialsRef": {"name": "key"}}


@pytest.mark.parametrize("name", readings_of("spark-iceberg"))
async def test_iceberg_tables_are_read_as_spark_reads_them(
    name: str, tmp_path: Path, llm: OpenAiServer, s3: S3Server
) -> None:
    machine = Machine(tmp_path / "run", contract=contract(llm, name))
    machine.contract["input"] = {
        "iceberg": registered(name, s3, machine.folder / "endpoints" / "input")
    }
    machine.contract["output"]["file"]["format"] = "parquet"
    rows = readings_of("spark-iceberg")[name]
    ended = await machine.pod()
    assert ended.message == f"{len(rows)} of {len(rows)} records predicted"
    found = dataset.dataset(machine.run_folder / "predictions").to_table()
    for column in rows[0]:
        kind = found.schema.field(column).type
        got = dict(zip(found.column("id").to_pylist(), plain(found.column(column)), strict=True))
        for row in rows:
            assert canonical(got[row["id"]], kind) == canonical(row[column], kind), (
                row["id"],
                column,
            )


async def test_a_table_of_iceberg_3_is_refused_as_output_before_a_request(
    tmp_path: Path, llm: OpenAiServer, s3: S3Server
) -> None:
    machine = Machine(tmp_path / "run", contract=contract(llm, "upgraded.delta"))
    given = registered(
        "imported.iceberg",
        s3,
        machine.folder / "endpoints" / "output",
        more={"format-version": 3, "next-row-id": 0},
    )
    machine.contract["output"] = {"iceberg": {**given, "bucket": s3.bucket.name, "path": "made"}}
    ended = await ran(machine, DELTA)
    assert "the table has format version 3, which is not implemented for output" in ended.message
    assert not llm.prompts
