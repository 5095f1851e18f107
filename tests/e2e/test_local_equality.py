"""What `inferrun local` does is what the cluster does: the same manifests, executed by both, end with
the same status, the same manifest of the output and the same results, apart from names and times.
"""

import asyncio
import gzip
import json
import re
import shutil
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pyarrow
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet
import pytest

from inferrun.client.errors import InvalidRequest, RunFailed
from inferrun.local import run as run_locally
from inferrun.local.result import LaunchRefused
from inferrun.resources import parse_run
from inferrun.results import read_results
from tests.e2e.file_world import CLAIM, OF_CLAIM, model_server, service
from tests.e2e.stage import Object, Space, provide_volumes, run, until
from tests.integration.runner.postgres_server import Postgres, postgres_server
from tests.integration.runner.s3_server import S3Server, credentials, s3_server

Secrets = Mapping[str, Mapping[str, str]]
"""The values of Secrets by name and key."""

RECORDS: Final = 60
AT_A_TIME: Final = 8
FORMATS: Final = ("jsonl", "csv", "parquet", "arrow")

SAME: Final = ("phase", "reason", "message", "exitCode", "records", "usage", "delivery", "output")
"""Of the status."""

WAITS: Final = ("ConfigNotReady",)

NAMES_AND_TIMES: Final = (
    "runId",
    "jobName",
    "contractSha256",
    "committedAt",
    "startedAt",
    "podUid",
)
"""Of the manifest."""


def write_inputs(folder: Path) -> None:
    """The same records in every form."""
    folder.mkdir(parents=True)
    rows = [[index, 0.5] for index in range(RECORDS)]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    (folder / "rows.jsonl").write_text(lines)
    (folder / "rows.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    (folder / "ids.jsonl").write_text(
        "".join(
            json.dumps({"custom_id": f"r{at}", "inputs": row}) + "\n" for at, row in enumerate(rows)
        )
    )
    (folder / "rows.json").write_text(json.dumps(rows))
    (folder / "objects.jsonl").write_text(
        "".join(json.dumps({"x": x, "y": y, "text": f"row {x}"}) + "\n" for x, y in rows)
    )
    (folder / "rows.csv").write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in rows))
    (folder / "bad.jsonl").write_text(lines + "no json\n[1]\n")
    (folder / "negative.jsonl").write_text(lines + "[-1, 0.5]\n")
    (folder / "empty.jsonl").write_text("")
    texts = pyarrow.table(
        {"id": list(range(RECORDS)), "text": [f"text {at}" for at in range(RECORDS)]}
    )
    numbers = pyarrow.table({"x": [float(x) for x, _ in rows], "y": [y for _, y in rows]})
    pyarrow.parquet.write_table(numbers, folder / "rows.parquet")
    pyarrow.parquet.write_table(texts, folder / "texts.parquet")
    pyarrow.orc.write_table(numbers, folder / "rows.orc")
    pyarrow.feather.write_feather(numbers, folder / "rows.arrow", compression="uncompressed")
    for day in (1, 2):
        part = folder / f"parts/day={day}"
        part.mkdir(parents=True)
        pyarrow.parquet.write_table(numbers, part / "rows.parquet")
    batch = (
        {
            "custom_id": f"b{at}",
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": {"model": "tiny", "messages": [{"role": "user", "content": f"say {at}"}]},
        }
        for at in range(RECORDS)
    )
    (folder / "batch.jsonl").write_text("".join(json.dumps(one) + "\n" for one in batch))


# Any: fields of a spec
def case(
    name: str,
    path: str = "rows.jsonl",
    /,
    *,
    of_run: Any = None,
    given: Any = None,
    out: Any = None,
    model: str = "sums",
    **spec: Any,
) -> tuple[str, Object, Object]:
    """Name, config without its model's address, and spec of the run."""
    storage = {
        "input": {"file": {"claimName": "data", "path": f"in/{path}", **(given or {})}},
        "output": {"file": {"claimName": "data", "path": "out", **(out or {})}},
    }
    return name, {"storage": storage, "backoffLimit": 0, "model": model, **spec}, of_run or {}


COLUMNS: Final[Object] = {"tensors": {"inputs": [{"name": "in", "columns": ["x", "y"]}]}}
CHAT: Final[Object] = {"protocolVersion": "openai", "modelName": "tiny"}
PROMPT: Final[Object] = {"chat": True, "request": {"prompt": "Say {{ text }}"}}
DAY: Final = {"start": "2026-11-21T00:00:00Z", "end": "2026-11-22T00:00:00Z"}


def cases() -> Iterator[tuple[str, Object, Object]]:
    for path in ("rows.jsonl", "rows.jsonl.gz", "ids.jsonl", "rows.json"):
        yield case(f"plain-{path.replace('.', '-')}", path)
    for form in ("csv", "parquet", "arrow", "orc"):
        yield case(f"from-{form}", f"rows.{form}", given={"format": form})
        yield case(f"columns-{form}", f"rows.{form}", given={"format": form}, **COLUMNS)
        for target in FORMATS:
            yield case(
                f"{form}-to-{target}",
                f"rows.{form}",
                given={"format": form},
                out={"format": target},
                joinSource="Input",
                **COLUMNS,
            )
    yield case("objects", "objects.jsonl", **COLUMNS)
    yield case("objects-passed", "objects.jsonl", passThroughColumns=["text"], **COLUMNS)
    yield case(
        "partitioned",
        "parts",
        given={"format": "parquet"},
        out={"format": "parquet", "layout": {"partitions": "Input"}},
        joinSource="Input",
        **COLUMNS,
    )
    yield case(
        "batch-file", "batch.jsonl", given={"format": "openai"}, out={"format": "openai"}, chat=True
    )
    for target in ("jsonl", "parquet"):
        yield case(
            f"prompt-to-{target}",
            "texts.parquet",
            given={"format": "parquet"},
            out={"format": target},
            **PROMPT,
        )
    yield case(
        "prompt-with-system",
        "objects.jsonl",
        chat=True,
        request={"system": "Be brief.", "prompt": "{{ text }} of {{ x }}", "maxTokens": 5},
    )
    yield case(
        "prompt-of-no-column", "objects.jsonl", chat=True, request={"prompt": "{{ missing }}"}
    )
    for size in (1, 7, 1000):
        yield case(f"requests-of-{size}", requests={"maxBatchRecords": size})
    yield case("small-chunks", limits={"chunk": "1Ki"})
    yield case("same-rows-once", requests={"duplicates": "SendOnce"})
    yield case("one-at-a-time", requests={"concurrency": 1, "maxBatchRecords": 10})
    yield case(
        "parameter", "$(params.file).jsonl", parameters=[{"name": "file", "default": "rows"}]
    )
    yield case("parameter-of-run", "$(params.file).jsonl", of_run={"parameters": {"file": "ids"}})
    yield case("parameter-missing", "$(params.file).jsonl")
    yield case("interval", "$(interval.start:%d)/rows.jsonl", of_run={"interval": DAY})
    yield case("interval-missing", "$(interval.start:%d)/rows.jsonl")
    yield case("dry-run", of_run={"dryRun": True})
    yield case("dry-run-of-nothing", "nothing.jsonl", of_run={"dryRun": True})
    yield case("canary", canaryRecords=5)
    yield case("canary-dies", "negative.jsonl", model="counting", canaryRecords=5, errorThreshold=0)
    yield case("bad-records", "bad.jsonl", errorThreshold=5)
    yield case("too-many-bad-records", "bad.jsonl", errorThreshold=1)
    yield case("no-threshold", "bad.jsonl")
    yield case("rejected-record", "negative.jsonl", model="counting", errorThreshold="10%")
    yield case("empty", "empty.jsonl")
    yield case("nothing", "nothing.jsonl")
    yield case("unknown-placeholder", "$(other.file).jsonl")
    yield case("wrong-format", "rows.csv", given={"format": "parquet"})
    yield case(
        "wrong-column", "rows.csv", tensors={"inputs": [{"name": "in", "columns": ["x", "z"]}]}
    )
    yield case(
        "wrong-tensor", "rows.csv", tensors={"inputs": [{"name": "other", "columns": ["x", "y"]}]}
    )
    yield case("shards", shards=2, limits={"chunk": "1Ki"}, requests={"maxBatchRecords": 5})
    yield case("retry-of-nothing", of_run={"retryOf": "nobody"})
    yield case("deadline", of_run={"timeoutSeconds": 120})
    yield case("ttl-and-policy", ttlSecondsAfterFinished=60, autoDeletePolicy="None")
    yield case("resources", resources={"limits": {"memory": "1Gi"}, "requests": {"cpu": "10m"}})


CASES: Final = list(cases())


def config_of(name: str, spec: Object, *, address: str) -> Object:
    found = dict(spec)
    model, is_chat = found.pop("model"), found.pop("chat", False)
    kserve = (
        {"modelUrl": f"http://{address}", **CHAT}
        if is_chat
        else {
            "modelName": model,
            "modelUrl": f"http://{address}/v2/models/{model}/infer",
            "modelInputName": "in",
        }
    )
    return {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceConfig",
        "metadata": {"name": name},
        "spec": {"kserve": kserve, **found},
    }


def same(value: Any) -> Any:  # Any: JSON
    """A value without what differs between two runs of a name."""
    text = json.dumps(value, sort_keys=True)
    text = re.sub(r"(inf-[a-z0-9-]+?)-[0-9a-f]{8}\b", r"\1-UID", text)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}", "UUID", text)
    text = re.sub(r"local-UUID", "UUID", text)
    text = re.sub(r"\b[0-9a-f]{64}\b", "SHA", text)
    return json.loads(text)


def ended_status(space: Space, name: str) -> Object | None:
    status = space.status(name)
    is_over = status.get("phase") in ("Succeeded", "Failed")
    return status if is_over or status.get("reason") in WAITS else None


def ended(status: Object) -> Object:
    found: Object = same({key: status[key] for key in SAME if key in status})
    return found


def results(
    run_object: Object, folder: Path, secrets: Secrets | None = None
) -> tuple[Object, list[Object]]:
    read_secret = secrets.__getitem__ if secrets else None
    found = read_results(parse_run(run_object), directory=folder, read_secret=read_secret)
    manifest = found.manifest.model_dump(mode="json", by_alias=True, exclude_none=True)
    for name in NAMES_AND_TIMES:
        manifest.pop(name, None)
    return same(manifest), [json.loads(row) for row in found.json_lines()]


def claim_folder(space: Space) -> Path:
    """Where the claim's volume is on this machine."""

    def bound() -> str | None:
        claim = space.get("pvc", "data") or {}
        return (claim.get("spec") or {}).get("volumeName")

    name = until(bound, seconds=60, what="the claim is bound")
    volume = json.loads(space.kubectl("get", "pv", name, "-o", "json"))
    return Path(volume["spec"]["local"]["path"])


@pytest.mark.thorough
def test_a_run_ends_on_one_machine_as_in_the_cluster(space: Space, tmp_path: Path) -> None:
    assert len(CASES) >= 60
    provide_volumes()
    space.apply(
        CLAIM,
        *model_server("models", OF_CLAIM, REQUEST_SECONDS="0", LISTED="tiny"),
        service("models", app="models"),
    )
    space.kubectl("wait", "pod/models", "--for=condition=Ready", "--timeout=55s")
    address = space.get("service", "models")["spec"]["clusterIP"]  # type: ignore[index]
    phases = compare(space, CASES, tmp_path, address=address)
    assert phases["Succeeded"] >= 40
    assert phases["Failed"] >= 10


@pytest.mark.thorough
async def test_a_run_of_another_store_ends_on_one_machine_as_in_the_cluster(
    space: Space, tmp_path: Path
) -> None:
    """Both reach the same servers, at the address of this machine on the cluster's bridge."""
    provide_volumes()
    space.apply(
        CLAIM,
        *model_server("models", OF_CLAIM, REQUEST_SECONDS="0"),
        service("models", app="models"),
    )
    space.kubectl("wait", "pod/models", "--for=condition=Ready", "--timeout=55s")
    address = space.get("service", "models")["spec"]["clusterIP"]  # type: ignore[index]
    bridge = space.stage.temporal_address.partition(":")[0]
    inputs = tmp_path / "inputs"
    write_inputs(inputs)
    with postgres_server() as database, served_folder(inputs, host=bridge) as site:
        fill(database)
        async with (
            s3_server(tmp_path / "buckets", host=bridge) as buckets,
            relayed(database.port, host=bridge) as port,
        ):
            shutil.copytree(inputs, buckets.bucket / "in")
            credentials(tmp_path / "login/s3-credentials")
            database.mount(tmp_path / "login/database")
            for key, value in (("host", bridge), ("port", str(port))):
                (tmp_path / "login/database" / key).write_text(value)
            wrong = tmp_path / "login/wrong-credentials"
            credentials(wrong)
            (wrong / "secretAccessKey").write_text("of-somebody-else")
            secrets = {
                folder.name: {one.name: one.read_text() for one in folder.iterdir()}
                for folder in (tmp_path / "login").iterdir()
            }
            space.apply(*(secret_of(name, keys) for name, keys in secrets.items()))
            found = list(store_cases(buckets, site=site))
            phases = await asyncio.to_thread(
                compare, space, found, tmp_path, address=address, secrets=secrets
            )
    assert phases["Succeeded"] >= 10
    assert phases["Failed"] >= 5


def store_cases(buckets: S3Server, *, site: str) -> Iterator[tuple[str, Object, Object]]:
    """Buckets, tables and files behind HTTP, with each other and with the claim."""

    def s3(path: str, **more: Any) -> Object:  # Any: members
        return {"s3": buckets.spec(path, **more)}

    def sql(**members: Any) -> Object:  # Any: as above
        return {"sql": {"credentialsRef": {"name": "database"}, **members}}

    claim = {"file": {"claimName": "data", "path": "out"}}
    rows = {"file": {"claimName": "data", "path": "in/rows.jsonl"}}
    query = sql(query="SELECT id, x, y FROM records", key="id")
    ends: dict[str, tuple[Object, Object, Object]] = {
        "bucket": (s3("in/rows.jsonl"), s3("out"), {}),
        "bucket-csv-to-parquet": (
            s3("in/rows.csv", format="csv"),
            s3("out", format="parquet"),
            {**COLUMNS, "joinSource": "Input"},
        ),
        "bucket-partitions": (
            s3("in/parts", format="parquet"),
            s3("out", format="parquet", layout={"partitions": "Input"}),
            {**COLUMNS, "joinSource": "Input"},
        ),
        "bucket-to-claim": (s3("in/rows.jsonl.gz"), claim, {}),
        "claim-to-bucket": (rows, s3("out"), {}),
        "bucket-with-nothing": (s3("in/nothing.jsonl"), s3("out"), {}),
        "bucket-of-nobody": ({"s3": {**s3("in")["s3"], "bucket": "nobodys"}}, s3("out"), {}),
        "bucket-wrong-login": (
            s3("in/rows.jsonl", credentialsRef={"name": "wrong-credentials"}),
            s3("out"),
            {},
        ),
        "bucket-bad-records": (s3("in/bad.jsonl"), s3("out"), {"errorThreshold": 5}),
        "bucket-shards": (
            s3("in/rows.jsonl"),
            s3("out"),
            {"shards": 2, "limits": {"chunk": "1Ki"}, "requests": {"maxBatchRecords": 5}},
        ),
        "table": (query, sql(table="predictions"), COLUMNS),
        "table-to-claim": (query, {"file": {**claim["file"], "format": "parquet"}}, COLUMNS),
        "claim-to-table": (rows, sql(table="others"), {}),
        "table-of-nobody": (sql(query="SELECT x, y FROM nobodys"), claim, COLUMNS),
        "table-wrong-column": (sql(query="SELECT id, x FROM records", key="id"), claim, COLUMNS),
        "site": ({"http": {"url": f"{site}/rows.jsonl"}}, claim, {}),
        "site-csv-to-bucket": (
            {"http": {"url": f"{site}/rows.csv", "format": "csv"}},
            s3("out"),
            COLUMNS,
        ),
        "site-with-nothing": ({"http": {"url": f"{site}/nothing.jsonl"}}, claim, {}),
    }
    for name, (source, target, spec) in ends.items():
        storage = {"input": source, "output": target}
        yield name, {"storage": storage, "backoffLimit": 0, "model": "sums", **spec}, {}


def secret_of(name: str, keys: Mapping[str, str]) -> Object:
    metadata = {"name": name}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": dict(keys)}


def fill(database: Postgres) -> None:
    database.execute("CREATE TABLE records (id int PRIMARY KEY, x float8, y float8)")
    database.execute(
        "INSERT INTO records SELECT at, at, 0.5 FROM generate_series(0, %s) AS at", RECORDS - 1
    )


@contextmanager
def served_folder(folder: Path, *, host: str) -> Iterator[str]:
    """The URL of a web server with the files of the folder."""

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:  # Any: of the server
            super().__init__(*arguments, directory=str(folder))

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 -- the library's name
            """Log nothing."""

    with ThreadingHTTPServer((host, 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{host}:{server.server_address[1]}"
        server.shutdown()


@asynccontextmanager
async def relayed(port: int, *, host: str) -> AsyncIterator[int]:
    """A port of the host whose connections go to that port of loopback."""

    async def copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                target.write(data)
                await target.drain()
        target.close()

    async def relay(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        their_source, their_target = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(source, their_target), copy(their_source, target))

    server = await asyncio.start_server(relay, host, 0)
    async with server:
        yield int(server.sockets[0].getsockname()[1])


def compare(
    space: Space,
    cases: Sequence[tuple[str, Object, Object]],
    tmp_path: Path,
    *,
    address: str,
    secrets: Secrets | None = None,
) -> Counter[str]:
    """Execute the cases in the cluster and here, and fail if they differ; returns how many ended in
    which phase."""
    theirs, ours = claim_folder(space), tmp_path / "data"
    write_inputs(ours / "in")
    (ours / "in/21").mkdir()
    shutil.copy(ours / "in/rows.jsonl", ours / "in/21")
    shutil.copytree(ours / "in", theirs / "in")
    (ours / "out").mkdir()
    differences: dict[str, object] = {}
    phases: Counter[str] = Counter()
    for place, (name, spec, of_run) in enumerate(cases):
        if place % AT_A_TIME == 0:  # more would be too many for the model server
            for one, its_spec, its_run in cases[place : place + AT_A_TIME]:
                space.apply(config_of(one, its_spec, address=address), run(one, one, **its_run))
            for one, _, _ in cases[place : place + AT_A_TIME]:
                until(partial(ended_status, space, one), seconds=300, what=f"{one} ended")
        theirs_ended = ended_status(space, name) or {}
        ours_object = local_run(
            config_of(name, spec, address=address),
            run(name, name, **of_run),
            tmp_path,
            namespace=space.name,
            secrets=secrets,
        )
        found = {"local": ended(ours_object["status"]), "cluster": ended(theirs_ended)}
        if theirs_ended["reason"] in WAITS:
            # it would go on once the config is corrected; here the command is repeated
            found = {key: {"message": one["message"]} for key, one in found.items()}
        if found["local"] != found["cluster"]:
            differences[name] = found
            continue
        phases[theirs_ended["phase"]] += 1
        if theirs_ended["phase"] == "Succeeded" and (theirs_ended.get("output") or {}).get(
            "sha256"
        ):
            stored = space.get("inferencerun", name)
            assert stored is not None
            if results(ours_object, ours, secrets) != results(stored, theirs, secrets):
                differences[name] = "results"
    assert not differences, json.dumps(differences, indent=1)
    return phases


def local_run(
    config: Object, run: Object, folder: Path, *, namespace: str, secrets: Secrets | None
) -> Object:
    """The run with the status that it has on this machine."""
    run["metadata"]["namespace"] = namespace
    state = folder / "state"
    try:
        claims = {"data": folder / "data"}
        run_locally(config, run, claims=claims, secrets=secrets, state=state)
    except RunFailed:
        pass
    except LaunchRefused as error:
        found = {"phase": "Failed", "reason": error.reason, "message": error.message}
        return {"status": {**found, "delivery": "Unknown"}}
    except InvalidRequest as error:
        return {"status": {"message": str(error)}}
    stored = json.loads((state / "runs" / run["metadata"]["name"] / "run.json").read_text())
    ended_run: Object = stored["run"]
    return ended_run
