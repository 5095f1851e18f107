"""Nothing that the runner writes, except the output, contains a record, a credential, a response,
or the query of a URL.

Canaries are planted in all of these, for a success and for each kind of failure.
"""

import json
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from tests.integration.runner.openai_server import OpenAiServer, batch_machine, openai_server
from tests.integration.runner.pods import Ended, Machine
from tests.integration.runner.postgres_server import Postgres
from tests.integration.runner.s3_server import S3Server
from tests.integration.runner.servers import CountingModel, Handler, serving
from tests.integration.runner.web_server import Requests, web_server

pytestmark = pytest.mark.thorough

RECORD = 731.377331
CANARY = "c4nary"
REFUSAL = f'{{"error": {{"message": "{CANARY}: cannot use {CANARY}", "code": "{CANARY}"}}}}'
ECHO = f"{CANARY}: cannot use [{RECORD}, 1.0]"
HOST = f"http://user:{CANARY}@127.0.0.1:9"


def answer(status: int, text: str) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def give(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=text)

    return give


def check(ended: Ended, code: int, *more: str) -> None:
    written = ended.stdout + ended.stderr + ended.message
    assert ended.code == code, written
    assert [canary for canary in (CANARY, str(RECORD), *more) if canary in written] == []


Prepare = Callable[[Machine, Handler, CountingModel], object]

HANDLERS: dict[str, tuple[int, Prepare]] = {
    "success": (0, lambda *_: None),
    "input rejected": (
        3,
        lambda _, handler, _model: setattr(handler, "before_input", answer(400, ECHO)),
    ),
    "input broken": (
        3,
        lambda _, handler, _model: setattr(handler, "before_input", answer(200, ECHO)),
    ),
    "input row": (
        3,
        lambda _, handler, _model: setattr(
            handler, "before_input", answer(200, f'{{"result": [["{CANARY}"]]}}')
        ),
    ),
    "input key": (
        3,
        lambda _, handler, _model: setattr(
            handler, "before_input", answer(200, f'{{"{CANARY}": 1}}')
        ),
    ),
    "model rejected": (4, lambda _, _handler, model: setattr(model, "before", answer(400, ECHO))),
    "model failed": (4, lambda _, _handler, model: setattr(model, "before", answer(500, ECHO))),
    "model broken": (4, lambda _, _handler, model: setattr(model, "before", answer(200, ECHO))),
    "model unreachable": (
        4,
        lambda machine, *_: machine.contract["kserve"].update(
            modelUrl=f"{HOST}/v2/models/sum/infer?key={CANARY}"
        ),
    ),
    "output rejected": (
        5,
        lambda _, handler, _model: setattr(handler, "before_output", answer(500, ECHO)),
    ),
    "output unconfirmed": (
        5,
        lambda _, handler, _model: setattr(handler, "before_output", answer(200, ECHO)),
    ),
    "handler unreachable": (
        3,
        lambda machine, *_: machine.endpoint("input", {"server-url": HOST, "token": ""}),
    ),
    "invalid header": (
        2,
        lambda machine, *_: machine.contract["input"]["krateo"]["api"].update(
            headers=[f"X: {CANARY}\nY: {CANARY}"]
        ),
    ),
    "invalid payload": (
        2,
        lambda machine, *_: machine.contract["output"]["krateo"]["api"].update(payload=CANARY),
    ),
}


@pytest.mark.parametrize(("code", "prepare"), HANDLERS.values(), ids=HANDLERS)
async def test_nothing_that_is_written_about_a_data_handler_contains_a_canary(
    krateo: Machine, handler: Handler, model: CountingModel, code: int, prepare: Prepare
) -> None:
    handler.rows = [[RECORD, 1.0, 2.0, 3.0]] * 3
    for side in ("input", "output"):
        krateo.endpoint(
            side, {"server-url": handler.url.replace("//", f"//user:{CANARY}@"), "token": ""}
        )
        api = krateo.contract[side]["krateo"]["api"]
        api |= {"headers": [f"X-Api-Key: {CANARY}"], "path": f"{api['path']}?token={CANARY}"}
    url = model.url.replace("//", f"//user:{CANARY}@")
    krateo.contract["kserve"]["modelUrl"] = f"{url}/v2/models/sum/infer?token={CANARY}"
    prepare(krateo, handler, model)
    ended = await krateo.process(INFERRUN_RETRY_SECONDS="0")
    check(ended, code)
    if code == 0:
        assert ended.result.output.location == f"{handler.url}/compute/output"


FILES = {
    "broken record": (3, f'[{RECORD}, "{CANARY}\n' * 3),
    "record of another shape": (0, f"[{RECORD}, 1.0]\n[[[{RECORD}]]]\n"),
    "record of another kind": (3, f'{{"{CANARY}": "{CANARY}"}}\n'),
    "record that is not text": (3, f"\x00{CANARY}\x00\n"),
}


@pytest.mark.parametrize(("code", "records"), FILES.values(), ids=FILES)
async def test_nothing_that_is_written_about_a_file_contains_a_record(
    file: Machine, code: int, records: str
) -> None:
    (file.input / "data" / "rows.jsonl").write_text(records)
    check(await file.process(INFERRUN_RETRY_SECONDS="0"), code)


async def test_a_link_from_the_input_to_a_secret_is_not_followed(
    file: Machine, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(f"{CANARY}-token\n")
    (file.input / "data" / "rows.jsonl").symlink_to(tmp_path / "token")
    check(await file.process(INFERRUN_RETRY_SECONDS="0"), 3)


def line(**body: object) -> str:
    messages = [{"role": "user", "content": CANARY}]
    prompt = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions"}
    return json.dumps({**prompt, "body": {"model": "any", "messages": messages, **body}}) + "\n"


@pytest.fixture
def batch(tmp_path: Path, s3: S3Server, llm: OpenAiServer) -> Machine:
    """A run with canaries in the prompts, the token and the server's URL."""
    llm.token = f"{CANARY}-of-the-server"
    url = f"{llm.url.replace('//', f'//user:{CANARY}@')}/v1?key={CANARY}"
    machine = batch_machine(tmp_path / "run", s3, url)
    machine.endpoint("model", {"token": llm.token})
    (s3.bucket / "in" / "batch.jsonl").write_text(line())
    return machine


PrepareBatch = Callable[[Machine, S3Server, OpenAiServer], object]


def of_model(status: int, text: str) -> PrepareBatch:
    return lambda _machine, _s3, llm: setattr(llm, "before", answer(status, text))


def of_records(text: str) -> PrepareBatch:
    return lambda _machine, s3, _llm: (s3.bucket / "in" / "batch.jsonl").write_text(text)


def of_endpoint(side: str, url: str) -> PrepareBatch:
    return lambda machine, *_: machine.contract[side]["s3"].update(endpoint=url)


def of_secret(side: str, **keys: str) -> PrepareBatch:
    return lambda machine, *_: machine.endpoint(side, keys)


BATCHES: dict[str, tuple[int, PrepareBatch]] = {
    "model rejected": (4, of_model(400, REFUSAL)),
    "model refused": (4, of_model(401, REFUSAL)),
    "model busy": (4, of_model(503, REFUSAL)),
    "model broken": (4, of_model(200, f"{CANARY} is not JSON")),
    "model token": (4, of_secret("model", token=f"{CANARY}-wrong")),
    "model unreachable": (4, lambda machine, *_: machine.contract["kserve"].update(modelUrl=HOST)),
    "record broken": (4, of_records(f"{CANARY}\n")),
    "record path": (4, of_records(line().replace("/v1/chat", f"/{CANARY}"))),
    "record stream": (4, of_records(line(stream=CANARY))),
    "input user": (2, of_endpoint("input", HOST)),
    "input query": (2, of_endpoint("input", f"http://127.0.0.1:9?key={CANARY}")),
    "input path": (2, of_endpoint("input", f"http://127.0.0.1:9/{CANARY}")),
    "output user": (2, of_endpoint("output", HOST)),
    "input key": (3, of_secret("input", secretAccessKey=CANARY)),
    "output key": (5, of_secret("output", secretAccessKey=CANARY)),
}


@pytest.mark.parametrize(("code", "prepare"), BATCHES.values(), ids=BATCHES)
async def test_nothing_that_is_written_about_a_batch_in_a_bucket_contains_a_canary(
    batch: Machine, s3: S3Server, llm: OpenAiServer, code: int, prepare: PrepareBatch
) -> None:
    prepare(batch, s3, llm)
    check(await batch.process(INFERRUN_RETRY_SECONDS="0"), code)


async def test_a_success_has_the_canary_only_in_its_output(batch: Machine, s3: S3Server) -> None:
    check(await batch.process(), 0)
    folder = s3.bucket / "out" / "inf-batch-5be07ada"
    assert CANARY in next((folder / "predictions").iterdir()).read_text()
    assert CANARY not in (folder / "manifest.json").read_text() + (folder / "run.json").read_text()


@pytest.mark.parametrize("status", [400, 403, 500])
async def test_what_an_s3_server_responds_is_not_shown(batch: Machine, status: int) -> None:
    app = web.Application()
    text = f"<Error><Code>{CANARY}</Code><Message>{CANARY}</Message></Error>"
    app.router.add_route("*", "/{path:.*}", answer(status, text))
    async with serving(app) as url:
        batch.contract["input"]["s3"]["endpoint"] = url
        check(await batch.process(INFERRUN_RETRY_SECONDS="0"), 3)


async def test_a_redirect_of_the_model_server_is_not_followed_with_the_token(
    batch: Machine, llm: OpenAiServer
) -> None:
    async with openai_server() as other:

        async def redirect(_: web.Request) -> web.StreamResponse:
            raise web.HTTPTemporaryRedirect(f"{other.url}/v1/chat/completions?{CANARY}")

        llm.before = redirect
        ended = await batch.process()
        check(ended, 4)
        assert "returned 307" in ended.message
        assert "redirects are not followed" in ended.message
        assert not other.prompts


@pytest.fixture
def stored(tmp_path: Path, model: CountingModel) -> Machine:
    """A run whose input the test adds."""
    uid = str(uuid.uuid4())
    kserve = {"modelName": "sum", "modelUrl": model.address, "modelInputName": "input-0"}
    output = {"file": {"claimName": "claim", "path": "out"}}
    contract = {
        "jobId": uid,
        "runId": uid,
        "jobName": f"inf-{uid[:8]}",
        "kserve": kserve,
        "output": output,
    }
    return Machine(tmp_path / "run", contract=contract)


ROWS = f"[{RECORD}, 1.0]\n".encode() * 3
WEB: dict[str, tuple[int, bytes, list[int], str]] = {
    "success": (0, ROWS, [], "rows.jsonl"),
    "unauthorized": (3, ROWS, [401], "rows.jsonl"),
    "failed": (3, ROWS, [500], "rows.jsonl"),
    "redirected": (3, ROWS, [302], "rows.jsonl"),
    "broken columns": (3, CANARY.encode() * 100, [], "rows.parquet"),
    "broken arrow": (3, b"ARROW1\0\0c4nary" * 100, [], "rows.arrow"),
    "broken compression": (3, CANARY.encode() * 100, [], "rows.jsonl.gz"),
}


@pytest.mark.parametrize("has_ranges", [True, False])
@pytest.mark.parametrize("kind", WEB)
async def test_nothing_that_is_written_about_a_web_server_contains_a_canary(
    stored: Machine, kind: str, *, has_ranges: bool
) -> None:
    code, body, failures, name = WEB[kind]
    requests = Requests(failures=list(failures))
    async with web_server({"body": body}, has_ranges=has_ranges, requests=requests) as address:
        stored.endpoint(
            "input", {"token": "c4nary-token", "url": f"{address}/{name}?signature=c4nary#c4nary"}
        )
        record_format = name.removesuffix(".gz").rpartition(".")[2]
        stored.contract["input"] = {
            "http": {"credentialsRef": {"name": "web"}, "format": record_format}
        }
        check(await stored.process(INFERRUN_RETRY_SECONDS="0"), code)
    assert requests.headers[0]["Authorization"] == "Bearer c4nary-token"


SECRETS = {
    "user information": {"url": "http://user:c4nary@127.0.0.1:9/rows.jsonl"},
    "scheme": {"url": "c4nary://127.0.0.1:9/rows.jsonl?c4nary"},
    "two credentials": {
        "url": "http://127.0.0.1:9/rows.jsonl?key=c4nary",
        "token": "c4nary",
        "password": "c4nary",
    },
    "line break": {
        "url": "http://127.0.0.1:9/rows.jsonl?key=c4nary",
        "token": "c4nary\nX-Other: c4nary",
    },
    "authority": {"url": "https://127.0.0.1:9/rows.jsonl?key=c4nary", "ca.crt": "c4nary"},
}


@pytest.mark.parametrize("values", SECRETS.values(), ids=SECRETS)
async def test_an_invalid_secret_is_reported_without_its_values(
    stored: Machine, values: dict[str, str]
) -> None:
    stored.endpoint("input", values)
    stored.contract["input"] = {"http": {"credentialsRef": {"name": "web"}}}
    ended = await stored.process(INFERRUN_RETRY_SECONDS="0")
    check(ended, 3)
    assert "input.http.credentialsRef" in ended.message


CODES = ("42000", "42p01", "28000", "25000", "22000", "xx000")


@pytest.fixture(scope="module")
def database(postgres: Postgres) -> Postgres:
    """A server with records, and with functions whose errors repeat them."""
    postgres.execute("create table records (id int primary key, a float8, name text)")
    postgres.execute(
        "insert into records select n, %s, 'c4nary' from generate_series(0, 9) n", RECORD
    )
    for code in CODES:
        postgres.execute(
            f"create function fails_{code}(name text) returns int language plpgsql as $$ begin raise exception using "
            f"errcode = '{code.upper()}', message = name, detail = name, hint = name; end $$"
        )
    return postgres


QUERIES = {
    "cast": "select id, name::int as a from records",
    "division": "select id, 1 / (a - a)::int as a from records",
    "text": "select id, name from records",
    "write": "insert into records select 99, 1, name from records returning id, a",
    **{code: f"select id, fails_{code}(name) as a from records" for code in CODES},  # noqa: S608  one of these codes
}
KEYS = {
    "wrong password": {"password": CANARY},
    "wrong user": {"password": CANARY, "username": "other"},
    "two hosts": {"host": f"127.0.0.1,{CANARY}"},
    "socket": {"host": f"/run/{CANARY}"},
    "parameters": {"host": "x user=c4nary password=c4nary"},
    "address of a database": {"dbname": "postgresql://user:c4nary@127.0.0.1/x"},
    "mode": {"sslmode": CANARY},
    "authority": {"ca.crt": CANARY},
}


@pytest.mark.parametrize("kind", ["success", "table of another kind", *QUERIES, *KEYS])
async def test_nothing_that_is_written_about_a_database_contains_a_canary(
    stored: Machine, database: Postgres, kind: str
) -> None:
    reference = {"credentialsRef": {"name": "database"}}
    rows = {"query": "select id, a, a as b from records", "key": "id"}
    stored.contract["input"] = {
        "sql": {**reference, **({"query": QUERIES[kind]} if kind in QUERIES else rows)}
    }
    table = "records" if kind.startswith("table") else "predictions"
    stored.contract["output"] = {"sql": {**reference, "table": table}}
    for side in ("input", "output"):
        database.mount(stored.folder / "endpoints" / side)
    stored.endpoint("input", KEYS.get(kind, {}))
    ended = await stored.process(INFERRUN_RETRY_SECONDS="0")
    check(ended, {"success": 0, "table of another kind": 5}.get(kind, 3), database.password)
