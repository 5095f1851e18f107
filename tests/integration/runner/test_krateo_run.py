"""A run with the label `krateo`: from the data handler through the model and back."""

import json

import orjson
import pytest
from aiohttp import web

from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import CountingModel, Handler
from tests.integration.runner.volumes import small_volume

ROWS = [[float(index), 0.5, 1.25, 2] for index in range(150)]

EXPECTED = 'expected {"result": [[number, …], …]}'
TRACEBACK = "Traceback (most recent call last):\n  File notebook.py\nKeyError: 'table'"


@pytest.fixture(autouse=True)
def rows(handler: Handler) -> None:
    handler.rows = ROWS


async def test_predictions_reach_the_handler_in_the_order_of_the_rows(
    krateo: Machine, handler: Handler
) -> None:
    ended = await krateo.process()
    assert (ended.code, ended.message) == (0, "150 of 150 records predicted"), ended.stderr
    assert handler.predictions() == [sum(row) for row in ROWS]
    assert ended.result.delivery == "AtLeastOnce"
    assert ended.result.output.location == f"{handler.url}/compute/output"
    assert ended.result.output.manifest == "pod_uid=pod-1"
    assert ended.progress()[-1] == {"total": 150, "completed": 150, "failed": 0}
    assert list((krateo.folder / "tmp").iterdir()) == []


async def test_the_handler_receives_the_documented_bodies(
    krateo: Machine, handler: Handler
) -> None:
    handler.rows = ROWS[:2]
    handler.accepts_chunks = True  # it is asked above the limit only
    await krateo.pod()
    assert handler.options == 0
    parameters = krateo.contract["parameters"]
    identity = {"job_uid": krateo.contract["jobId"], "pod_uid": "pod-1"}
    assert handler.asked == [parameters]
    assert handler.stored == [{**identity, "predictions": "[3.75,4.75]", **parameters}]
    sent = [headers["Authorization"] for headers in handler.headers]
    assert sent == ["Bearer secret-of-input", "Bearer secret-of-output"]
    assert {headers["Content-Type"] for headers in handler.headers} == {"application/json"}
    assert all("Content-Length" in headers for headers in handler.headers)


async def test_a_header_from_a_secret_overrides_all_others_and_is_never_shown(
    krateo: Machine, handler: Handler
) -> None:
    source = {"name": "authorization", "secretKeyRef": {"name": "handler", "key": "header"}}
    krateo.contract["input"]["krateo"]["api"] |= {
        "headersFrom": [source],
        "headers": ["Authorization: Bearer config"],
    }
    folder = krateo.folder / "endpoints" / "input-headers"
    folder.mkdir()
    (folder / "0").write_text("Bearer c4nary\n")
    handler.rows = ROWS[:2]
    ended = await krateo.process()
    assert ended.code == 0
    assert [headers["Authorization"] for headers in handler.headers] == [
        "Bearer c4nary",
        "Bearer secret-of-output",
    ]
    (folder / "0").write_text("Bearer c4nary\r\nX: c4nary")
    invalid = await krateo.process()
    assert invalid.code == 3
    assert (
        "key header of Secret 'handler': the value must not contain control characters"
        in invalid.message
    )
    shown = (
        ended.stdout
        + ended.stderr
        + ended.message
        + invalid.stdout
        + invalid.stderr
        + invalid.message
    )
    assert "c4nary" not in shown


async def test_the_model_receives_rows_by_columns_in_batches(
    krateo: Machine, model: CountingModel
) -> None:
    await krateo.pod(INFERRUN_BATCH_ROWS="100")
    shapes = sorted(request["shape"] for request in model.requests)
    assert shapes == [[50, 4], [100, 4]]
    assert {(request["name"], request["datatype"]) for request in model.requests} == {
        ("input-0", "FP32")
    }


async def test_an_empty_table_gives_a_run_without_records(
    krateo: Machine, handler: Handler, model: CountingModel
) -> None:
    handler.rows = []
    await krateo.success("0 of 0 records predicted")
    assert [body["predictions"] for body in handler.stored] == ["[]"]
    assert not model.requests


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (web.Response(status=500, text="boom"), "returned 500 with a body of 4 bytes; see"),
        (web.Response(status=302, headers={"Location": "http://127.0.0.1:9"}), "returned 302"),
        (
            web.Response(text=TRACEBACK),
            f"(71 bytes read): not a JSON object; {EXPECTED}",
        ),
    ],
    ids=["500", "redirect", "traceback"],
)
async def test_an_invalid_input_response_is_reported_without_its_content(
    krateo: Machine, handler: Handler, model: CountingModel, response: web.Response, message: str
) -> None:
    async def give(_: web.Request) -> web.StreamResponse:
        return response

    handler.before_input = give
    await krateo.failure(3, message, f"{handler.url}/compute/input", reason="InputFailed")
    assert not model.requests
    assert not handler.stored


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (web.Response(status=413, text="too large"), "returned 413 with a body of 9 bytes"),
        (
            web.Response(text=TRACEBACK, content_type="application/json"),
            "returned 200 with a body of 71 bytes",
        ),
    ],
    ids=["413", "traceback"],
)
async def test_an_output_response_that_confirms_nothing_fails_the_run(
    krateo: Machine, handler: Handler, response: web.Response, message: str
) -> None:
    async def take(_: web.Request) -> web.StreamResponse:
        return response

    handler.before_output = take
    ended = await krateo.failure(5, message, reason="OutputFailed")
    assert ended.result.records.completed == 0


async def test_a_request_to_a_busy_handler_is_retried(krateo: Machine, handler: Handler) -> None:
    tries: list[str] = []

    async def busy_once(request: web.Request) -> web.StreamResponse | None:
        tries.append(request.path)
        return (
            web.Response(status=429, headers={"Retry-After": "0"})
            if tries.count(request.path) == 1
            else None
        )

    handler.before_input = handler.before_output = busy_once
    await krateo.success(INFERRUN_RETRY_SECONDS="20")
    assert len(tries) == 4
    assert len(handler.stored) == 1


async def test_predictions_that_may_be_stored_are_not_sent_again_by_the_same_pod(
    krateo: Machine, handler: Handler
) -> None:
    posts: list[int] = []

    async def cut_off(request: web.Request) -> web.StreamResponse | None:
        posts.append(1)
        assert request.transport
        request.transport.close()
        return None

    handler.before_output = cut_off
    await krateo.failure(
        5, "it is unknown whether the predictions were stored", INFERRUN_RETRY_SECONDS="20"
    )
    assert len(posts) == 1


@pytest.mark.parametrize("status", [500, 503])
async def test_a_post_with_an_unknown_outcome_is_not_repeated(
    krateo: Machine, handler: Handler, status: int
) -> None:
    async def store_and_fail(request: web.Request) -> web.StreamResponse | None:
        handler.stored.append(orjson.loads(await request.read()))
        return web.Response(status=status, headers={"Retry-After": "0"}, text="upstream lost")

    handler.before_output = store_and_fail
    await krateo.failure(
        5,
        f"returned {status} with a body of 13 bytes; see the log of the data handler; "
        "it is unknown whether the predictions were stored",
        INFERRUN_RETRY_SECONDS="20",
    )
    assert len(handler.stored) == 1


async def test_chunks_are_negotiated_before_the_rest_of_the_input_is_predicted(
    krateo: Machine, handler: Handler, model: CountingModel
) -> None:
    handler.rows = [[float(index), 0.25] for index in range(60_000)]
    await krateo.final_failure(
        5,
        "a POST of 0.1 MiB or more, the limit is 0.1 MiB",
        "Accept-Chunks: predictions",
        INFERRUN_POST_LIMIT=str(1 << 17),
        INFERRUN_BATCH_ROWS="500",
    )
    assert (handler.options, handler.stored) == (1, [])
    assert model.rows.total() < 40_000


async def test_a_handler_that_accepts_chunks_receives_them_within_the_limit(
    krateo: Machine, handler: Handler
) -> None:
    handler.accepts_chunks = True
    handler.rows = [[float(index), 0.25] for index in range(5000)]
    await krateo.success(INFERRUN_POST_LIMIT="10240")
    assert handler.predictions() == [index + 0.25 for index in range(5000)]
    assert [body["chunk"] for body in handler.stored] == list(range(len(handler.stored)))
    sizes = [len(orjson.loads(body["predictions"])) for body in handler.stored]
    assert [body["offset"] for body in handler.stored] == [
        sum(sizes[:place]) for place in range(len(sizes))
    ]
    assert all(
        int(headers["Content-Length"]) <= 10240
        for headers in handler.headers
        if "Content-Length" in headers
    )
    assert len(handler.stored) > 3


async def test_a_missing_secret_is_reported_with_its_name(krateo: Machine) -> None:
    (krateo.folder / "endpoints" / "input" / "server-url").unlink()
    ended = await krateo.failure(3)
    assert ended.message.startswith(
        "input.krateo.api.endpointRef: Secret 'handler-endpoint' has no key server-url"
    )


async def test_tokens_are_not_logged_or_reported(krateo: Machine, handler: Handler) -> None:
    async def reject(_: web.Request) -> web.StreamResponse:
        return web.Response(status=403, text="no")

    handler.before_output = reject
    ended = await krateo.process()
    assert ended.code == 5
    assert "secret-of" not in ended.stdout + ended.stderr + json.dumps(
        ended.result.model_dump(mode="json")
    )


@pytest.mark.parametrize(
    ("rows", "code", "message"),
    [
        (40_000, 3, "cannot spool the input to"),
        (9_000, 5, "cannot spool the predictions to"),
    ],
    ids=["input", "output"],
)
async def test_a_full_spool_is_reported(
    krateo: Machine, handler: Handler, rows: int, code: int, message: str
) -> None:
    handler.rows = [[0.123456789, 0.5]] * rows
    with small_volume(krateo.folder / "tmp", kib=256):
        ended = await krateo.pod()
    assert ended.code == code
    assert message in ended.message
    assert "No space left on device; the Pod needs enough ephemeral storage for" in ended.message
    assert not handler.stored
