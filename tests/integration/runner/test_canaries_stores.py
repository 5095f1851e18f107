"""Nothing that the runner writes about web servers and databases contains a record, a credential or a response.

Canaries are planted in the records, in the keys of the Secrets, in URLs, and in what servers answer.
"""

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.runner.pods import Ended, Machine
from tests.integration.runner.postgres_server import Postgres, postgres_server
from tests.integration.runner.servers import CountingModel
from tests.integration.runner.web_server import Requests, web_server

pytestmark = pytest.mark.thorough

RECORD = 731.377331
CANARIES = (str(RECORD), "c4nary")
ROWS = f"[{RECORD}, 1.0]\n".encode() * 3


def found_in(ended: Ended) -> list[str]:
    written = ended.stdout + ended.stderr + ended.message
    assert written
    return [canary for canary in CANARIES if canary in written]


def contract_of(model: CountingModel) -> dict[str, object]:
    uid = str(uuid.uuid4())
    kserve = {"modelName": "sum", "modelUrl": model.address, "modelInputName": "input-0"}
    output = {"file": {"claimName": "claim", "path": "out"}}
    return {"jobId": uid, "runId": uid, "jobName": f"inf-{uid[:8]}", "kserve": kserve, "output": output}


WEB: dict[str, tuple[int, bytes, list[int], str]] = {
    "success": (0, ROWS, [], "rows.jsonl"),
    "unauthorized": (3, ROWS, [401], "rows.jsonl"),
    "failed": (3, ROWS, [500], "rows.jsonl"),
    "redirected": (3, ROWS, [302], "rows.jsonl"),
    "broken record": (3, f'[{RECORD}, "c4nary\n'.encode(), [], "rows.jsonl"),
    "record of another kind": (3, b'{"c4nary": "c4nary"}\n', [], "rows.jsonl"),
    "broken columns": (3, b"c4nary" * 100, [], "rows.parquet"),
    "broken arrow": (3, b"ARROW1\0\0c4nary" * 100, [], "rows.arrow"),
    "broken compression": (3, b"c4nary" * 100, [], "rows.jsonl.gz"),
}


@pytest.mark.parametrize("has_ranges", [True, False])
@pytest.mark.parametrize(("code", "body", "failures", "name"), WEB.values(), ids=WEB)
async def test_nothing_that_is_written_about_a_web_server_contains_a_canary(  # noqa: PLR0917
    tmp_path: Path,
    model: CountingModel,
    code: int,
    body: bytes,
    failures: list[int],
    name: str,
    *,
    has_ranges: bool,
) -> None:
    machine = Machine(tmp_path / "run", contract=contract_of(model))
    requests = Requests(failures=list(failures))
    record_format = name.removesuffix(".gz").rpartition(".")[2]
    async with web_server({"body": body}, has_ranges=has_ranges, requests=requests) as address:
        machine.endpoint("input", {"token": "c4nary-token", "url": f"{address}/{name}?signature=c4nary#c4nary"})
        machine.contract["input"] = {"http": {"credentialsRef": {"name": "web"}, "format": record_format}}
        ended = await machine.process(INFERRUN_RETRY_SECONDS="0")
    assert ended.code == code, ended.message
    assert found_in(ended) == []
    assert requests.headers[0]["Authorization"] == "Bearer c4nary-token"


@pytest.mark.parametrize(
    "values",
    [
        {"url": "http://user:c4nary@127.0.0.1:9/rows.jsonl"},
        {"url": "c4nary://127.0.0.1:9/rows.jsonl?c4nary"},
        {"url": "http://127.0.0.1:9/rows.jsonl?key=c4nary", "token": "c4nary", "password": "c4nary"},
        {"url": "http://127.0.0.1:9/rows.jsonl?key=c4nary", "token": "c4nary\nX-Other: c4nary"},
        {"url": "https://127.0.0.1:9/rows.jsonl?key=c4nary", "ca.crt": "c4nary"},
    ],
    ids=["user information", "scheme", "two credentials", "line break", "authority"],
)
async def test_an_invalid_secret_is_reported_without_its_values(
    tmp_path: Path, model: CountingModel, values: dict[str, str]
) -> None:
    machine = Machine(tmp_path / "run", contract=contract_of(model))
    machine.endpoint("input", values)
    machine.contract["input"] = {"http": {"credentialsRef": {"name": "web"}}}
    ended = await machine.process(INFERRUN_RETRY_SECONDS="0")
    assert ended.code == 3, ended.message
    assert "input.http.credentialsRef" in ended.message
    assert found_in(ended) == []


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A server with records, and with functions whose errors repeat them."""
    with postgres_server() as started:
        started.execute("create table records (id int primary key, a float8, name text)")
        started.execute("insert into records select n, %s, 'c4nary' from generate_series(0, 9) n", RECORD)
        for code in ("42000", "42P01", "28000", "25000", "22000", "XX000"):
            started.execute(
                f"create function fails_{code.lower()}(name text) returns int language plpgsql as "
                f"$$ begin raise exception using errcode = '{code}', message = name, detail = name, hint = name; end $$"
            )
        yield started


Prepare = Callable[[Machine], None]


def query(text: str) -> Prepare:
    def prepare(machine: Machine) -> None:
        machine.contract["input"]["sql"] = {"credentialsRef": {"name": "database"}, "query": text}

    return prepare


def secret(side: str, **values: str) -> Prepare:
    return lambda machine: machine.endpoint(side, values)


DATABASE: dict[str, tuple[int, Prepare]] = {
    "success": (0, lambda _machine: None),
    "cast": (3, query("select id, name::int as a from records")),
    "division": (3, query("select id, 1 / (a - a)::int as a from records")),
    "text": (3, query("select id, name from records")),
    "write": (3, query("insert into records select 99, 1, name from records returning id, a")),
    "wrong password": (3, secret("input", password="c4nary")),
    "wrong user": (3, secret("input", password="c4nary", username="other")),
    "two hosts": (3, secret("input", host="127.0.0.1,c4nary")),
    "socket": (3, secret("input", host="/run/c4nary")),
    "parameters": (3, secret("input", host="x user=c4nary password=c4nary")),
    "address of a database": (3, secret("input", dbname="postgresql://user:c4nary@127.0.0.1/x")),
    "mode": (3, secret("input", sslmode="c4nary")),
    "authority": (3, secret("input", **{"ca.crt": "c4nary"})),
    "table of another kind": (5, lambda machine: machine.contract["output"]["sql"].update(table="records")),
    **{
        f"function {code}": (3, query(f"select id, fails_{code}(name) as a from records"))  # noqa: S608  one of these codes
        for code in ("42000", "42p01", "28000", "25000", "22000", "xx000")
    },
}


@pytest.mark.parametrize(("code", "prepare"), DATABASE.values(), ids=DATABASE)
async def test_nothing_that_is_written_about_a_database_contains_a_canary(
    tmp_path: Path, model: CountingModel, server: Postgres, code: int, prepare: Prepare
) -> None:
    reference = {"credentialsRef": {"name": "database"}}
    machine = Machine(tmp_path / "run", contract=contract_of(model))
    machine.contract["input"] = {"sql": {**reference, "query": "select id, a, a as b from records", "key": "id"}}
    machine.contract["output"] = {"sql": {**reference, "table": "predictions"}}
    for side in ("input", "output"):
        server.mount(machine.folder / "endpoints" / side)
    prepare(machine)
    ended = await machine.process(INFERRUN_RETRY_SECONDS="0")
    assert ended.code == code, ended.message
    assert found_in(ended) == []
    assert server.password not in ended.stdout + ended.stderr + ended.message
