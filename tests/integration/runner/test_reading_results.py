"""Results of real runs, read as users do: every format in every store, joined, as tables, and what
is wrong with some."""

import base64
import gzip
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas
import polars
import pyarrow
import pytest

from inferrun.reasons import Phase
from inferrun.resources import InferenceRun, InferenceRunSpec, InferenceRunStatus
from inferrun.resources.references import ConfigReference, Metadata
from inferrun.results import (
    InputChanged,
    NoResults,
    ResultsChanged,
    ResultsUnreachable,
    RunNotEnded,
    read_results,
)
from inferrun.runner_report import Output
from tests.integration.runner.openai_server import openai_server
from tests.integration.runner.pods import Ended, Machine
from tests.integration.runner.postgres_server import DATABASE, USER, Postgres
from tests.integration.runner.s3_server import ACCESS_KEY, SECRET_KEY, S3Server, credentials
from tests.integration.runner.servers import CountingModel, nothing
from tests.integration.runner.tables import content_of

COUNT = 400
BAD = {3, 250}
SMALL = {"INFERRUN_CHUNK_BYTES": "1024", "INFERRUN_BATCH_ROWS": "50"}
FORMATS = ("jsonl", "csv", "parquet", "arrow")
STORES = (*(f"file-{form}" for form in FORMATS), "s3-parquet", "sql")
FEW = ("file-jsonl", "s3-parquet", "sql")


# Any: fields of a status
def run_of(machine: Machine, ended: Ended | None, **status: Any) -> InferenceRun:
    """The resource of a run that a Pod has executed."""
    output = ended.result.output if ended is not None and ended.code == 0 else None
    contract = base64.b64encode(json.dumps(machine.contract).encode()).decode()
    succeeded = {"phase": Phase.SUCCEEDED, "output": output, "contract": contract}
    return InferenceRun(
        metadata=Metadata(name="sums", namespace="models", uid=machine.contract["runId"]),
        spec=InferenceRunSpec(config_ref=ConfigReference(name="sums")),
        status=InferenceRunStatus.model_validate({**succeeded, **status}),
    )


@dataclass
class Store:
    """A store of results, and what a user passes to read from it."""

    output: dict[str, Any]  # Any: JSON
    access: dict[str, Any] = field(default_factory=dict)  # Any: arguments


def key() -> dict[str, str]:
    return {"accessKeyId": ACCESS_KEY, "secretAccessKey": SECRET_KEY}


def login(server: Postgres) -> dict[str, str]:
    return {
        "host": "127.0.0.1",
        "port": str(server.port),
        "dbname": DATABASE,
        "username": USER,
        "password": server.password,
    }


@pytest.fixture(autouse=True)
def rows(file: Machine) -> None:
    file.write_rows({"custom_id": f"c{index}", "inputs": [index, 0.5]} for index in range(COUNT))


def in_directory(machine: Machine, form: str) -> Store:
    machine.contract["output"]["file"] |= {"format": form, "layout": {"partSize": "4Ki"}}
    return Store(machine.contract["output"], {"directory": machine.output})


def in_bucket(machine: Machine, server: S3Server, form: str) -> Store:
    credentials(machine.folder / "endpoints" / "output")
    machine.contract["output"] = {
        "s3": server.spec("results", format=form, layout={"partSize": "4Ki"})
    }
    return Store(machine.contract["output"], {"credentials": key()})


def in_table(machine: Machine, server: Postgres) -> Store:
    server.mount(machine.folder / "endpoints" / "output")
    machine.contract["output"] = {
        "sql": {"credentialsRef": {"name": "database"}, "table": "predictions"}
    }
    uid = str(uuid.uuid4())
    machine.contract |= {"jobId": uid, "runId": uid}
    return Store(machine.contract["output"], {"credentials": login(server)})


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, file: Machine) -> Store:
    kind, _, form = request.param.partition("-")
    if kind == "file":
        return in_directory(file, form)
    if kind == "s3":
        return in_bucket(file, request.getfixturevalue("s3"), form)
    return in_table(file, request.getfixturevalue("postgres"))


def expected(index: int) -> dict[str, Any]:  # Any: JSON
    is_bad = index in BAD
    return {
        "index": index,
        "custom_id": f"c{index}",
        "prediction": None if is_bad else index + 0.5,
        "error": is_bad,
    }


def checked(row: Mapping[str, Any]) -> dict[str, Any]:  # Any: JSON
    return {**row, "error": row["error"] is not None}


async def test_every_record_has_a_row_in_the_order_of_the_input(
    file: Machine, model: CountingModel, store: Store
) -> None:
    model.reject(BAD)
    ended = await file.pod(**SMALL)
    results = read_results(run_of(file, ended), **store.access)
    assert [checked(row) for row in results] == [expected(index) for index in range(COUNT)]
    assert (len(results), len(results.predictions), len(results.errors)) == (
        COUNT,
        COUNT - len(BAD),
        len(BAD),
    )
    assert list(results.predictions)[3] == {"index": 4, "custom_id": "c4", "prediction": 4.5}
    assert [(row["index"], row["custom_id"], row["error_code"]) for row in results.errors] == [
        (3, "c3", "rejected"),
        (250, "c250", "rejected"),
    ]
    assert results.manifest.records.failed == len(BAD)
    assert len(results.manifest.parts) > 1


async def test_results_are_tables_of_arrow_pandas_and_polars(
    file: Machine, model: CountingModel, store: Store
) -> None:
    model.reject(BAD)
    ended = await file.pod(**SMALL)
    results = read_results(run_of(file, ended), **store.access)
    table = results.to_arrow()
    assert table.schema.names == ["index", "custom_id", "prediction", "error"]
    assert pyarrow.types.is_floating(table.schema.field("prediction").type)
    assert [checked(row) for row in table.to_pylist()] == [
        expected(index) for index in range(COUNT)
    ]
    batches = list(results.batches())
    assert len(batches) == len(results.manifest.parts)
    assert {batch.schema for batch in batches} == {table.schema}
    assert pyarrow.Table.from_batches(batches) == table
    frame = results.predictions.to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == ["index", "custom_id", "prediction"]
    assert frame["prediction"].sum() == sum(
        index + 0.5 for index in range(COUNT) if index not in BAD
    )
    errors = results.errors.to_polars()
    assert isinstance(errors, polars.DataFrame)
    assert errors.columns == ["index", "custom_id", "error_code", "error_message", "error_attempts"]
    assert errors["index"].to_list() == sorted(BAD)


async def test_parts_with_values_of_different_types_have_one_schema(
    file: Machine, model: CountingModel
) -> None:
    file.contract |= {"passThroughColumns": ["note"]}
    notes = [1, 2.5, "three", None, {"four": 4}, [5]]
    lines = (
        json.dumps({"inputs": [index, 0.5], "note": notes[index * len(notes) // COUNT]}) + "\n"
        for index in range(COUNT)
    )
    (file.input / "data" / "rows.jsonl").write_text("".join(lines))
    results = read_results(run_of(file, await file.pod(**SMALL)), directory=file.output)
    assert [row["note"] for row in results] == [
        notes[index * len(notes) // COUNT] for index in range(COUNT)
    ]
    table = pyarrow.Table.from_batches(results.batches())
    assert table == results.to_arrow()
    note = table.schema.field("note")
    assert (note.type, note.metadata) == (pyarrow.string(), {b"inferrun": b"json"})
    assert [text and json.loads(text) for text in table.column("note").to_pylist()] == [
        row["note"] for row in results
    ]
    assert "custom_id" not in table.schema.names


async def test_responses_of_openai_and_failed_requests_are_rows(file: Machine) -> None:
    lines = [
        {"custom_id": f"r{index}", "method": "POST", "url": "/v1/chat/completions", "body": {}}
        for index in range(3)
    ]
    for line in lines[:2]:
        line["body"] = {"model": "tiny", "messages": [{"role": "user", "content": "hello"}]}
    (file.input / "data" / "rows.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    for side in ("input", "output"):
        file.contract[side]["file"]["format"] = "openai"
    async with openai_server() as server:
        file.contract["kserve"] = {"modelUrl": server.url, "protocolVersion": "openai"}
        ended = await file.pod()
    directory = {"given": file.input, "made": file.output}
    results = read_results(run_of(file, ended), directory=directory, join_input=True)
    rows = list(results)
    assert [row["custom_id"] for row in rows] == ["r0", "r1", "r2"]
    assert [row["body"] for row in rows] == [line["body"] for line in lines]
    assert (
        rows[0]["prediction"]["response" if "response" in rows[0]["prediction"] else "status_code"]
        == 200
    )
    assert [row["index"] for row in results.errors] == [2]


for_each_store = pytest.mark.parametrize("store", FEW, indirect=True)


@for_each_store
async def test_results_are_joined_with_the_input(
    file: Machine, model: CountingModel, store: Store
) -> None:
    model.reject(BAD)
    ended = await file.pod(**SMALL)
    access = {**store.access, "directory": {"given": file.input, "made": file.output}}
    results = read_results(run_of(file, ended), join_input=True, **access)
    assert [row["inputs"] for row in results] == [[index, 0.5] for index in range(COUNT)]
    assert [row["inputs"] for row in results.errors] == [[index, 0.5] for index in sorted(BAD)]
    assert results.to_arrow().schema.names == [
        "index",
        "custom_id",
        "inputs",
        "prediction",
        "error",
    ]
    path = file.input / "data" / "rows.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    for changed, why in (
        (lines[:-1], "fewer"),
        ([*lines, lines[0]], "more"),
        (lines[::-1], "another custom_id"),
    ):
        path.write_text("".join(changed))
        with pytest.raises(InputChanged, match=why):
            list(read_results(run_of(file, ended), join_input=True, **access))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("is_named", [False, True])
async def test_each_format_of_an_input_is_joined(
    file: Machine, model: CountingModel, s3: S3Server, form: str, *, is_named: bool
) -> None:
    table: dict[str, list[Any]] = {
        "custom_id": [f"c{n}" for n in range(COUNT)],
        "a": list(range(COUNT)),
        "b": [0.5] * COUNT,
    }
    if is_named:
        table["city"] = ["Rome", "Oslo"] * (COUNT // 2)
        file.contract["passThroughColumns"] = ["city"]
    if is_named and form == "jsonl":
        table["inputs"] = [[index, 0.5] for index in range(COUNT)]
    if not is_named and form == "jsonl":
        del table["a"], table["b"]
        table["inputs"] = [[index, 0.5] for index in range(COUNT)]
    half = {name: values[: COUNT // 2] for name, values in table.items()}
    rest = {name: values[COUNT // 2 :] for name, values in table.items()}
    (s3.bucket / "in").mkdir()
    (s3.bucket / "in" / "notes.txt").write_text("not read")
    (s3.bucket / "in" / f"1.{form}").write_bytes(content_of(half, name=form))
    last = s3.bucket / "in" / f"2.{form}.gz"
    last.write_bytes(gzip.compress(content_of(rest, name=form)))
    credentials(file.folder / "endpoints" / "input")
    file.contract["input"] = {"s3": s3.spec("in/", format=form)}
    ended = await file.pod(**SMALL)
    run = run_of(file, ended)
    access: dict[str, Any] = {"directory": file.output, "credentials": key()}  # Any: arguments
    rows = list(read_results(run, join_input=True, **access))
    assert [row["custom_id"] for row in rows] == table["custom_id"]
    for name in table.keys() - {"custom_id"}:
        found = [row[name] for row in rows]
        assert ([float(value) for value in found] if name in "ab" else found) == table[name]
    last.write_bytes(gzip.compress(content_of(half, name=form)))
    with pytest.raises(
        InputChanged, match="the objects of the input of run models/sums have changed"
    ):
        list(read_results(run, join_input=True, **access))


@pytest.mark.parametrize("path", ["in", "in/dt=*/*.parquet"])
async def test_a_dataset_is_joined_with_its_partitions(
    file: Machine, s3: S3Server, path: str
) -> None:
    for day, values in (("2026-11-23", [1, 2]), ("2026-11-24", [3])):
        folder = s3.bucket / "in" / f"dt={day}"
        folder.mkdir(parents=True)
        (folder / "a.parquet").write_bytes(content_of({"a": values}, name="parquet"))
        (folder / "_b.parquet").write_bytes(b"hidden")
        (folder / "empty.parquet").touch()
    credentials(file.folder / "endpoints" / "input")
    file.contract["input"] = {"s3": s3.spec(path, format="parquet")}
    ended = await file.success()
    assert ended.result.records.total == 3
    rows = list(
        read_results(run_of(file, ended), join_input=True, directory=file.output, credentials=key())
    )
    assert [(row["a"], row["dt"], row["prediction"]) for row in rows] == [
        (1, "2026-11-23", 1.0),
        (2, "2026-11-23", 2.0),
        (3, "2026-11-24", 3.0),
    ]


async def test_rows_of_a_query_are_joined(
    file: Machine, model: CountingModel, postgres: Postgres
) -> None:
    postgres.execute("drop table if exists irises")
    postgres.execute("create table irises (id int primary key, name text, a float8, b numeric)")
    postgres.execute(
        "insert into irises select n, 'iris ' || n, n, n / 2.0 from generate_series(99, 0, -1) n"
    )
    store = in_table(file, postgres)
    postgres.mount(file.folder / "endpoints" / "input")
    query = (
        "select id, name, a, b from irises where id < current_setting('inferrun.p1')::int -- these;"
    )
    values = {"query": query, "key": "id", "values": ["50"]}
    file.contract["input"] = {"sql": {"credentialsRef": {"name": "database"}, **values}}
    file.contract["passThroughColumns"] = ["name"]
    ended = await file.pod(**SMALL)
    rows = list(read_results(run_of(file, ended), join_input=True, **store.access))
    assert [(row["id"], row["name"], row["a"], row["prediction"]) for row in rows] == [
        (index, f"iris {index}", index, index * 1.5) for index in range(50)
    ]


@for_each_store
async def test_the_output_of_a_retry_is_complete(
    file: Machine, model: CountingModel, store: Store
) -> None:
    model.reject(BAD)
    first = await file.pod(**SMALL)
    model.before = nothing
    file.retry(first)
    second = await file.pod(**SMALL)
    results = read_results(run_of(file, second), **store.access)
    assert list(results.errors) == []
    assert len(results.errors.to_arrow()) == 0
    assert [row["prediction"] for row in results] == [index + 0.5 for index in range(COUNT)]


async def test_what_a_killed_pod_left_is_not_read(file: Machine, model: CountingModel) -> None:
    """Only the manifest says what belongs to the run."""
    ended = await file.pod(**SMALL)
    left = file.run_folder / "predictions" / "part-000000-000000000000-killed.jsonl"
    left.write_text('{"index":0,"prediction":"not committed"}\n')
    results = read_results(run_of(file, ended), directory=file.output)
    assert [row["prediction"] for row in results] == [index + 0.5 for index in range(COUNT)]


@for_each_store
async def test_a_part_that_was_changed_or_deleted_is_not_read(
    file: Machine, model: CountingModel, store: Store, request: pytest.FixtureRequest
) -> None:
    ended = await file.pod(**SMALL)
    run = run_of(file, ended)
    results = read_results(run, **store.access)
    last = results.manifest.parts[-1]
    if "sql" in store.output:
        server: Postgres = request.getfixturevalue("postgres")
        change = "update predictions set prediction = 0.25 where run = %s and index = %s"
        server.execute(change, file.contract["runId"], last.first)
        why = (
            f"table predictions: the rows of records {last.first} to {COUNT - 1} have changed since"
        )
    else:
        root = request.getfixturevalue("s3").bucket if "s3" in store.output else file.output
        path = root / "results" / file.contract["jobName"] / last.file
        content = path.read_bytes()
        path.write_bytes(content[:-2] + b"!" + content[-1:])
        why = "is missing or has changed since the run committed it"
    found = []
    with pytest.raises(ResultsChanged, match=why):
        found += list(results)
    assert next(iter(results))["index"] == 0
    with pytest.raises(ResultsChanged, match=why):
        results.to_pandas()
    if "sql" in store.output:
        server.execute(
            "delete from predictions where run = %s and index = %s",
            file.contract["runId"],
            last.first,
        )
    else:
        path.unlink()
    with pytest.raises(ResultsChanged, match=why):
        list(results)


@for_each_store
async def test_a_manifest_that_is_missing_or_not_the_one_of_the_run_is_said(
    file: Machine, model: CountingModel, store: Store, request: pytest.FixtureRequest
) -> None:
    ended = await file.pod(**SMALL)
    digest = "0" * 64
    other = Output(location="", manifest="", sha256=digest)
    with pytest.raises(ResultsChanged, match="is not the one that run models/sums committed"):
        read_results(run_of(file, ended, output=other), **store.access)
    if "sql" in store.output:
        server: Postgres = request.getfixturevalue("postgres")
        server.execute(
            "update inferrun_runs set manifest = null where run = %s", file.contract["runId"]
        )
    else:
        root = request.getfixturevalue("s3").bucket if "s3" in store.output else file.output
        (root / "results" / file.contract["jobName"] / "manifest.json").unlink()
    with pytest.raises(
        ResultsChanged, match="run models/sums has committed its output, but its manifest is not in"
    ):
        read_results(run_of(file, ended), **store.access)


async def test_a_table_with_columns_of_other_types_is_read_by_its_counts(
    file: Machine, model: CountingModel, postgres: Postgres
) -> None:
    postgres.execute("drop table if exists predictions")
    postgres.execute(
        "create table predictions (run text, index bigint, custom_id text, prediction jsonb, error jsonb, "
        "primary key (run, index))"
    )
    store = in_table(file, postgres)
    results = read_results(run_of(file, await file.pod(**SMALL)), **store.access)
    assert [row["prediction"] for row in results] == [index + 0.5 for index in range(COUNT)]
    postgres.execute("delete from predictions where index = 7")
    with pytest.raises(ResultsChanged):
        list(results)
    postgres.execute("drop table predictions")


async def test_columns_of_a_table_may_have_the_names_that_statements_use(
    file: Machine, model: CountingModel, postgres: Postgres
) -> None:
    """Whole rows are read and compared, not the column that is named like them."""
    store = in_table(file, postgres)
    store.output["sql"]["table"] = "named"
    names = ["q", "o", "i", "key0", "lines", "x"]
    file.contract |= {"passThroughColumns": names, "tensors": {"inputs": [{"columns": ["x"]}]}}
    rows = [{name: at + 10 * index for at, name in enumerate(names)} for index in range(COUNT)]
    file.write_rows(iter(rows))
    results = read_results(run_of(file, await file.pod(**SMALL)), **store.access)
    assert [{name: row[name] for name in names} for row in results] == rows
    postgres.execute("update named set x = -1 where index = 7")
    with pytest.raises(ResultsChanged):
        list(results)


async def test_a_copy_of_the_folder_of_a_run_is_enough(file: Machine, model: CountingModel) -> None:
    ended = await file.pod(**SMALL)
    folder = file.run_folder
    assert len(list(read_results(run_of(file, ended), directory=str(folder)))) == COUNT


async def test_credentials_come_from_the_caller_the_environment_or_the_secret(
    file: Machine,
    model: CountingModel,
    s3: S3Server,
    postgres: Postgres,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    in_bucket(file, s3, "jsonl")
    ended = await file.pod(**SMALL)
    run = run_of(file, ended)
    with pytest.raises(
        ResultsUnreachable, match=r"keys of Secret 's3-credentials', or set AWS_ACCESS_KEY_ID"
    ):
        read_results(run)
    assert len(list(read_results(run, read_secret={"s3-credentials": key()}.__getitem__))) == COUNT
    with pytest.raises(ResultsUnreachable, match=r"access denied|access key is unknown"):
        read_results(run, credentials={**key(), "secretAccessKey": "wrong"})
    with pytest.raises(ResultsUnreachable, match=r"http://127\.0\.0\.1:1 cannot be reached"):
        read_results(run, credentials={**key(), "endpoint": "http://127.0.0.1:1"})
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    assert len(list(read_results(run))) == COUNT
    del file.contract["output"]["s3"]["credentialsRef"]
    assert len(list(read_results(run_of(file, ended)))) == COUNT

    in_table(file, postgres)
    run = run_of(file, await file.pod(**SMALL))
    with pytest.raises(ResultsUnreachable, match="keys of Secret 'database', or set PGHOST"):
        read_results(run)
    secret = {**login(postgres), "host": "database.of.the.cluster"}
    access: dict[str, Any] = {
        "credentials": {"host": "127.0.0.1"},
        "read_secret": {"database": secret}.__getitem__,
    }
    assert len(list(read_results(run, **access))) == COUNT
    with pytest.raises(ResultsUnreachable, match="password authentication failed"):
        read_results(run, credentials={**login(postgres), "password": "wrong"})
    for name, value in (
        ("HOST", "127.0.0.1"),
        ("PORT", postgres.port),
        ("USER", USER),
        ("DATABASE", DATABASE),
    ):
        monkeypatch.setenv(f"PG{name}", str(value))
    monkeypatch.setenv("PGPASSWORD", postgres.password)
    assert len(list(read_results(run))) == COUNT


@pytest.mark.parametrize(
    ("status", "spec", "why"),
    [
        ({"phase": None}, {}, "has not ended, it is Pending"),
        ({"phase": "Running", "message": "attempt 1"}, {}, "it is Running: attempt 1; wait for it"),
        (
            {"phase": "Failed", "reason": "InputFailed", "message": "empty"},
            {},
            r"has failed \(InputFailed: empty\).*retryOf: sums",
        ),
        ({"phase": "Scheduled"}, {"schedule": "@daily"}, "is a schedule"),
        ({}, {"dry_run": True}, "was a dry run"),
        ({"output": None}, {}, "has no manifest: its image, or the store of its output"),
        ({"contract": None}, {}, "has no contract in its status"),
        (
            {"contract": base64.b64encode(b'{"jobId":"a","jobName":"b","output":{"krateo":{}}}')},
            {},
            "the store 'krateo'",
        ),
    ],
)
def test_a_run_without_results_says_why(
    file: Machine,
    status: dict[str, Any],
    spec: dict[str, Any],
    why: str,  # Any: fields
) -> None:
    output = Output(location="made/results", manifest="", sha256="0" * 64)
    run = run_of(file, None, **{"output": output, **status})
    run = run.model_copy(update={"spec": run.spec.model_copy(update=spec)})
    with pytest.raises((NoResults, RunNotEnded), match=why):
        read_results(run, directory=file.output)


def test_a_claim_that_is_not_given_is_named(file: Machine) -> None:
    output = Output(location="made/results", manifest="", sha256="0" * 64)
    for directory in (None, {"other": file.output}):
        with pytest.raises(
            ResultsUnreachable,
            match=r"are on claim 'made', .*copy of its folder results/inf-sums-5be07ada",
        ):
            read_results(run_of(file, None, output=output), directory=directory)
