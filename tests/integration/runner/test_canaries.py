"""Nothing that the runner writes contains a record, a header value, a token, or the user information or query of a URL.

Canaries are planted in all of these, for a success and for each kind of failure.
"""

from collections.abc import Callable

import pytest
from aiohttp import web

from tests.integration.runner.pods import Ended, Machine
from tests.integration.runner.servers import CountingModel, Handler

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
