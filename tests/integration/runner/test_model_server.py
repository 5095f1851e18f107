"""Runs with a model server that fails, is slow or is misconfigured."""

import asyncio
from collections import Counter

import pytest
from aiohttp import web

from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import Away, CountingModel, Handler, never


@pytest.fixture(autouse=True)
def rows(handler: Handler) -> None:
    handler.rows = [[float(index), 1.0] for index in range(1000)]


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (
            web.json_response({"error": "Model sum not found"}, status=404),
            "returned 404 with a body of 32 bytes; check",
        ),
        (
            web.json_response({"error": "X has 2 features"}, status=400),
            "returned 400 with a body of 29 bytes; check",
        ),
        (
            web.Response(status=500, text="boom"),
            "returned 500 with a body of 4 bytes; see the log of the model server",
        ),
        (web.Response(status=502, text="bad gateway"), "returned 502 with a body of 11 bytes"),
        (web.Response(status=307, headers={"Location": "/x"}), "returned 307"),
        (web.Response(text="<html>login</html>"), "not valid JSON"),
        (
            web.json_response({"outputs": [{"data": [1] * 7, "shape": [7]}]}),
            "the output has 7 rows for",
        ),
    ],
    ids=["404", "400", "500", "502", "redirect", "html", "short"],
)
async def test_a_failing_model_is_reported_with_its_name_url_and_status(
    krateo: Machine, handler: Handler, model: CountingModel, response: web.Response, message: str
) -> None:
    async def other(_: web.Request) -> web.StreamResponse:
        return web.Response(status=response.status, body=response.body, headers=response.headers)

    model.before = other
    ended = await krateo.failure(4, reason="InferenceFailed")
    assert ended.message.startswith(f"model 'sum' at {model.url}/v2/models/sum/infer returned ")
    assert message in ended.message
    assert not handler.stored


async def test_a_refused_connection_is_reported(krateo: Machine) -> None:
    krateo.contract["kserve"]["modelUrl"] = "127.0.0.1:9/v2/models/sum/infer"
    await krateo.failure(
        4, "model 'sum' at http://127.0.0.1:9/v2/models/sum/infer: cannot connect to 127.0.0.1:9"
    )


async def test_an_unresolvable_host_name_is_reported(krateo: Machine) -> None:
    krateo.contract["kserve"]["modelUrl"] = "no-such-service.invalid/v2/models/sum/infer"
    await krateo.failure(4, "cannot resolve host name 'no-such-service.invalid'")


async def test_a_timeout_is_reported_with_its_seconds(
    krateo: Machine, model: CountingModel
) -> None:
    model.before = never
    await krateo.failure(4, "no response within 0.3 s", INFERRUN_REQUEST_TIMEOUT="0.3")


async def test_transient_failures_are_retried(
    krateo: Machine, handler: Handler, model: CountingModel
) -> None:
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
    await krateo.success(INFERRUN_RETRY_SECONDS="30", INFERRUN_BATCH_ROWS="100")
    assert handler.predictions() == [index + 1.0 for index in range(1000)]
    assert set(model.rows.values()) == {1}


@pytest.mark.parametrize("status", [404, 405, 410, 403])
async def test_a_model_that_is_away_for_a_moment_costs_no_record(
    krateo: Machine, handler: Handler, model: CountingModel, status: int
) -> None:
    """A server that loads a model again, or a gateway whose worker is replaced. V2 names the model
    in the address."""
    model.before = away = Away(
        lambda: web.json_response({"error": "Model sum not found"}, status=status),
        is_due=lambda: model.rows.total() >= 300,
        left=20,
    )
    await krateo.success(
        "1000 of 1000 records predicted", INFERRUN_RETRY_SECONDS="10", INFERRUN_BATCH_ROWS="10"
    )
    assert not away.left
    assert handler.predictions() == [index + 1.0 for index in range(1000)]


async def test_a_run_of_which_every_record_failed_fails(
    krateo: Machine, handler: Handler, model: CountingModel
) -> None:
    handler.rows = handler.rows[:2]

    async def nulls(_: web.Request) -> web.StreamResponse:
        return web.json_response(
            {"outputs": [{"name": "o", "shape": [2], "datatype": "FP32", "data": [None, None]}]}
        )

    model.before = nulls
    ended = await krateo.failure(4)
    assert (
        ended.message == "all 2 records failed: the model returned null; the run was not committed"
    )
    assert not ended.result.retryable
    assert not handler.stored


async def test_concurrent_requests_reach_but_do_not_exceed_the_limit(
    krateo: Machine, model: CountingModel
) -> None:
    all_here = asyncio.Event()

    async def gather(_: web.Request) -> web.StreamResponse | None:
        if model.in_flight == 3:
            all_here.set()
        await asyncio.wait_for(all_here.wait(), 20)
        return None

    model.before = gather
    await krateo.success(INFERRUN_CONCURRENCY="3", INFERRUN_BATCH_ROWS="50")
    assert model.most_in_flight == 3


async def test_predictions_are_stored_in_order_even_if_responses_are_not(
    krateo: Machine, handler: Handler, model: CountingModel
) -> None:
    arrived: Counter[str] = Counter()
    second_finished = asyncio.Event()

    async def hold_the_first(_: web.Request) -> web.StreamResponse | None:
        arrived["requests"] += 1
        if arrived["requests"] == 1:
            await asyncio.wait_for(second_finished.wait(), 20)
        else:
            second_finished.set()
        return None

    model.before = hold_the_first
    await krateo.success(INFERRUN_BATCH_ROWS="100", INFERRUN_CONCURRENCY="4")
    assert handler.predictions() == [index + 1.0 for index in range(1000)]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (
            "modelVersion",
            "v9",
            "kserve.modelVersion: unknown name 'v9'; allowed: grpc-v2, http, openai, v1, v2",
        ),
        ("modelUrl", "", "kserve.modelUrl: required"),
        ("modelUrl", "ftp://host", "kserve.modelUrl: must be the http or https URL"),
    ],
)
async def test_an_invalid_model_is_a_contract_error(
    krateo: Machine, handler: Handler, field: str, value: str, message: str
) -> None:
    krateo.contract["kserve"][field] = value
    ended = await krateo.failure(2, reason="InvalidContract")
    assert ended.message.startswith(message)
    assert not handler.asked
