"""What a run says and does when its model server is not as it should be."""

import asyncio
from collections import Counter

import pytest
from aiohttp import web

from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import CountingModel, Handler, never


@pytest.fixture(autouse=True)
def rows(handler: Handler) -> None:
    handler.rows = [[float(index), 1.0] for index in range(1000)]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (web.json_response({"error": "Model sum not found"}, status=404), "answered 404: Model sum not found; is"),
        (web.json_response({"error": "X has 2 features"}, status=400), "answered 400: X has 2 features; do"),
        (web.Response(status=500, text="boom"), "answered 500: boom"),
        (web.Response(status=502, text="bad gateway"), "answered 502: bad gateway"),
        (web.Response(status=307, headers={"Location": "/x"}), "answered 307"),
        (web.Response(text="<html>login</html>"), "it is not JSON"),
        (web.json_response({"outputs": [{"data": [1], "shape": [1]}]}), "it holds 1 rows for 1000 records"),
    ],
    ids=["404", "400", "500", "502", "redirect", "html", "short"],
)
async def test_a_model_that_does_not_predict_fails_with_its_name_address_and_answer(
    krateo: Machine, handler: Handler, model: CountingModel, answer: web.Response, said: str
) -> None:
    async def other(_: web.Request) -> web.StreamResponse:
        return answer

    model.before = other
    ended = await krateo.pod()
    assert (ended.code, ended.result.reason) == (4, "InferenceFailed")
    assert ended.message.startswith(f"model 'sum' at {model.url}/v2/models/sum/infer answered ")
    assert said in ended.message
    assert not handler.stored


async def test_a_server_that_is_not_there_is_told_by_its_layer(krateo: Machine) -> None:
    krateo.contract["kserve"]["modelUrl"] = "127.0.0.1:9/v2/models/sum/infer"
    ended = await krateo.pod()
    assert ended.code == 4
    assert "model 'sum' at http://127.0.0.1:9/v2/models/sum/infer: no connection to 127.0.0.1:9" in ended.message


async def test_a_name_that_does_not_resolve_is_told_as_such(krateo: Machine) -> None:
    krateo.contract["kserve"]["modelUrl"] = "no-such-service.invalid/v2/models/sum/infer"
    ended = await krateo.pod()
    assert ended.code == 4
    assert "the name 'no-such-service.invalid' does not resolve (DNS)" in ended.message


async def test_an_answer_that_does_not_come_is_told_with_its_seconds(krateo: Machine, model: CountingModel) -> None:
    model.before = never
    ended = await krateo.pod(INFERRUN_REQUEST_TIMEOUT="0.3")
    assert ended.code == 4
    assert "no answer within 0.3 s" in ended.message


async def test_transient_failures_pass_unseen(krateo: Machine, handler: Handler, model: CountingModel) -> None:
    statuses = iter([429, 502, 503, 504])

    async def fail_first(request: web.Request) -> web.StreamResponse | None:
        status = next(statuses, None)
        if status is None:
            return None
        if status == 502:
            assert request.transport
            request.transport.close()
        return web.Response(status=status, headers={"Retry-After": "0"})

    model.before = fail_first
    ended = await krateo.pod(INFERRUN_RETRY_SECONDS="30", INFERRUN_BATCH_ROWS="100")
    assert ended.code == 0, ended.message
    assert handler.predictions() == [index + 1.0 for index in range(1000)]
    assert set(model.rows.values()) == {1}


async def test_requests_under_way_are_as_many_as_the_limit(krateo: Machine, model: CountingModel) -> None:
    all_here = asyncio.Event()

    async def gather(_: web.Request) -> web.StreamResponse | None:
        if model.under_way == 3:
            all_here.set()
        await asyncio.wait_for(all_here.wait(), 20)
        return None

    model.before = gather
    ended = await krateo.pod(INFERRUN_CONCURRENCY="3", INFERRUN_BATCH_ROWS="50")
    assert ended.code == 0
    assert model.most_under_way == 3


async def test_answers_out_of_order_are_stored_in_order(
    krateo: Machine, handler: Handler, model: CountingModel
) -> None:
    arrived: Counter[str] = Counter()
    second_answered = asyncio.Event()

    async def hold_the_first(_: web.Request) -> web.StreamResponse | None:
        arrived["requests"] += 1
        if arrived["requests"] == 1:
            await asyncio.wait_for(second_answered.wait(), 20)
        else:
            second_answered.set()
        return None

    model.before = hold_the_first
    assert (await krateo.pod(INFERRUN_BATCH_ROWS="100")).code == 0
    assert handler.predictions() == [index + 1.0 for index in range(1000)]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("modelVersion", "v1", "kserve.modelVersion: 'v1' is not known here; allowed: v2"),
        ("modelUrl", "", "kserve.modelUrl: is required"),
        ("modelUrl", "ftp://host", "kserve.modelUrl: an http or https address"),
    ],
)
async def test_a_model_that_cannot_be_called_is_a_bad_contract(
    krateo: Machine, handler: Handler, field: str, value: str, message: str
) -> None:
    krateo.contract["kserve"][field] = value
    ended = await krateo.pod()
    assert (ended.code, ended.result.reason) == (2, "InvalidContract")
    assert ended.message.startswith(message)
    assert not handler.asked


async def test_a_model_without_a_name_of_its_input_takes_the_metadatas(krateo: Machine, model: CountingModel) -> None:
    del krateo.contract["kserve"]["modelInputName"]
    model.metadata = {"inputs": [{"name": "flowers", "shape": [-1, 2]}]}
    assert (await krateo.pod()).code == 0
    assert {request["name"] for request in model.requests} == {"flowers"}


async def test_records_of_a_width_that_the_metadata_does_not_know_get_a_hint(
    krateo: Machine, model: CountingModel
) -> None:
    model.metadata = {"inputs": [{"name": "input-0", "shape": [-1, 4]}]}

    async def break_down(_: web.Request) -> web.StreamResponse:
        return web.Response(status=500, text="Internal Server Error")

    model.before = break_down
    ended = await krateo.pod()
    assert ended.message.endswith(
        "answered 500: Internal Server Error; its metadata asks for 4 numbers per record, these have 2"
    )
