"""Nothing that the runner writes contains a record, a header value, a token, or the user information or query of a URL.

Canaries are planted in all of these, for a success and for each kind of failure.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import web

from tests.integration.runner.pods import Ended, Machine
from tests.integration.runner.servers import CountingModel, Handler

pytestmark = pytest.mark.thorough

RECORD = 731.377331
CANARIES = (str(RECORD), "c4nary")


def answer(status: int, text: str) -> Callable[[web.Request], object]:
    async def give(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=text)

    return give


ECHO = f"c4nary: cannot use [{RECORD}, 1.0]"

FAILURES: dict[str, tuple[int, Callable[[Machine, Handler, CountingModel], None]]] = {
    "success": (0, lambda _machine, _handler, _model: None),
    "input rejected": (3, lambda _machine, handler, _model: setattr(handler, "before_input", answer(400, ECHO))),
    "input broken": (3, lambda _machine, handler, _model: setattr(handler, "before_input", answer(200, ECHO))),
    "input row": (
        3,
        lambda _machine, handler, _model: setattr(
            handler, "before_input", answer(200, f'{{"result": [["c4nary"], [{RECORD}]]}}')
        ),
    ),
    "input key": (3, lambda _machine, handler, _model: setattr(handler, "before_input", answer(200, '{"c4nary": 1}'))),
    "model rejected": (4, lambda _machine, _handler, model: setattr(model, "before", answer(400, ECHO))),
    "model failed": (4, lambda _machine, _handler, model: setattr(model, "before", answer(500, ECHO))),
    "model broken": (4, lambda _machine, _handler, model: setattr(model, "before", answer(200, ECHO))),
    "output rejected": (5, lambda _machine, handler, _model: setattr(handler, "before_output", answer(500, ECHO))),
    "output unconfirmed": (5, lambda _machine, handler, _model: setattr(handler, "before_output", answer(200, ECHO))),
    "model unreachable": (4, lambda machine, _handler, _model: unreachable_model(machine)),
    "handler unreachable": (3, lambda machine, _handler, _model: machine.endpoint("input", address("127.0.0.1:9"))),
    "invalid header": (
        2,
        lambda machine, _handler, _model: machine.contract["input"]["krateo"]["api"].update(
            headers=["X: c4nary\nY: c4nary"]
        ),
    ),
    "invalid payload": (
        2,
        lambda machine, _handler, _model: machine.contract["output"]["krateo"]["api"].update(payload="c4nary"),
    ),
}


def unreachable_model(machine: Machine) -> None:
    machine.contract["kserve"]["modelUrl"] = "http://user:c4nary@127.0.0.1:9/v2/models/sum/infer?key=c4nary"


def address(host: str) -> dict[str, str]:
    return {"server-url": f"http://user:c4nary@{host}", "token": ""}


def all_of(ended: Ended) -> str:
    return ended.stdout + ended.stderr + ended.message


@pytest.mark.parametrize(("code", "prepare"), FAILURES.values(), ids=FAILURES)
async def test_nothing_that_the_runner_writes_contains_a_canary(
    krateo: Machine,
    handler: Handler,
    model: CountingModel,
    code: int,
    prepare: Callable[[Machine, Handler, CountingModel], None],
) -> None:
    handler.rows = [[RECORD, 1.0, 2.0, 3.0]] * 3
    host = handler.url.removeprefix("http://")
    for side in ("input", "output"):
        krateo.endpoint(side, address(host))
        api = krateo.contract[side]["krateo"]["api"]
        api |= {"headers": ["X-Api-Key: c4nary"], "path": api["path"] + "?token=c4nary"}
    krateo.contract["kserve"]["modelUrl"] = model.url.replace("http://", "http://user:c4nary@") + (
        "/v2/models/sum/infer?token=c4nary"
    )
    prepare(krateo, handler, model)
    ended = await krateo.process(INFERRUN_RETRY_SECONDS="0")
    written = all_of(ended)
    assert ended.code == code, written
    assert [canary for canary in CANARIES if canary in written] == []
    if code == 0:
        assert (
            ended.result.output.location
            == f"{handler.url}{krateo.contract['output']['krateo']['api']['path'].split('?')[0]}"
        )


def write_records(file: Machine, text: str) -> None:
    (file.input / "data").mkdir(exist_ok=True)
    (file.input / "data" / "rows.jsonl").write_text(text, encoding="utf-8")


FILES: dict[str, tuple[int, str, Callable[[Machine, CountingModel], None]]] = {
    "success": (0, f"[{RECORD}, 1.0]\n" * 3, lambda _machine, _model: None),
    "broken record": (3, f'[{RECORD}, "c4nary\n' * 3, lambda _machine, _model: None),
    "record of another shape": (0, f"[{RECORD}, 1.0]\n[[[{RECORD}]]]\n", lambda _machine, _model: None),
    "record of another kind": (3, '{"c4nary": "c4nary"}\n', lambda _machine, _model: None),
    "record that is not text": (3, "\x00c4nary\x00\n", lambda _machine, _model: None),
    "model failed": (4, f"[{RECORD}, 1.0]\n", lambda _machine, model: setattr(model, "before", answer(500, ECHO))),
    "model broken": (4, f"[{RECORD}, 1.0]\n", lambda _machine, model: setattr(model, "before", answer(200, ECHO))),
    "input missing": (3, "", lambda machine, _model: (machine.input / "data" / "rows.jsonl").unlink()),
}


@pytest.mark.parametrize(("code", "records", "prepare"), FILES.values(), ids=FILES)
async def test_nothing_that_the_runner_writes_besides_the_output_contains_a_record_of_a_file(
    file: Machine, model: CountingModel, code: int, records: str, prepare: Callable[[Machine, CountingModel], None]
) -> None:
    write_records(file, records)
    prepare(file, model)
    ended = await file.process(INFERRUN_RETRY_SECONDS="0")
    written = all_of(ended)
    assert ended.code == code, written
    assert [canary for canary in CANARIES if canary in written] == []


async def test_a_link_from_the_input_to_a_secret_is_not_followed(file: Machine, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("c4nary-token\n", encoding="utf-8")
    write_records(file, "")
    rows = file.input / "data" / "rows.jsonl"
    rows.unlink()
    rows.symlink_to(tmp_path / "token")
    ended = await file.process(INFERRUN_RETRY_SECONDS="0")
    assert ended.code == 3
    assert "c4nary" not in all_of(ended)
