"""A run by the `krateo` label, from the data handler through the model and back."""

import json

import orjson
import pytest
from aiohttp import web

from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import CountingModel, Handler
from tests.integration.runner.volumes import small_volume

ROWS = [[float(index), 0.5, 1.25, 2] for index in range(150)]

TRACEBACK = "Traceback (most recent call last):\n  File notebook.py\nKeyError: 'table'"


@pytest.fixture(autouse=True)
def rows(handler: Handler) -> None:
    handler.rows = ROWS


async def test_predictions_reach_the_handler_in_the_order_of_the_rows(krateo: Machine, handler: Handler) -> None:
    ended = await krateo.process()
    assert (ended.code, ended.message) == (0, "150 of 150 records predicted"), ended.stderr
    assert handler.predictions() == [sum(row) for row in ROWS]
    assert ended.result.delivery == "AtLeastOnce"
    assert ended.result.output.location == f"{handler.url}/compute/output"
    assert ended.progress()[-1] == {"total": 150, "completed": 150, "failed": 0}


async def test_the_handler_gets_the_bodies_that_were_agreed(krateo: Machine, handler: Handler) -> None:
    handler.rows = ROWS[:2]
    await krateo.pod()
    parameters = krateo.contract["parameters"]
    identity = {"job_uid": krateo.contract["jobId"], "pod_uid": "pod-1"}
    assert handler.asked == [parameters]
    assert handler.stored == [{**identity, "predictions": "[3.75,4.75]", **parameters}]
    sent = [headers["Authorization"] for headers in handler.headers]
    assert sent == ["Bearer secret-of-input", "Bearer secret-of-output"]
    assert {headers["Content-Type"] for headers in handler.headers} == {"application/json"}
    assert all("Content-Length" in headers for headers in handler.headers)


async def test_the_model_gets_rows_by_columns_in_batches(krateo: Machine, model: CountingModel) -> None:
    await krateo.pod(INFERRUN_BATCH_ROWS="100")
    shapes = sorted(request["shape"] for request in model.requests)
    assert shapes == [[50, 4], [100, 4]]
    assert {(request["name"], request["datatype"]) for request in model.requests} == {("input-0", "FP32")}


async def test_a_series_model_gets_the_shape_that_its_metadata_says(krateo: Machine, model: CountingModel) -> None:
    model.metadata = {"name": "sum", "inputs": [{"name": "input-0", "datatype": "FP32", "shape": [-1, 4, 1]}]}
    assert (await krateo.pod()).code == 0
    assert {tuple(request["shape"]) for request in model.requests} == {(150, 4, 1)}


async def test_an_empty_table_is_a_run_of_no_records(krateo: Machine, handler: Handler, model: CountingModel) -> None:
    handler.rows = []
    ended = await krateo.pod()
    assert (ended.code, ended.message) == (0, "0 of 0 records predicted")
    assert [body["predictions"] for body in handler.stored] == ["[]"]
    assert not model.requests


async def test_nothing_is_left_on_the_disk_of_the_pod(krateo: Machine) -> None:
    await krateo.pod()
    assert list((krateo.folder / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (web.Response(status=500, text="boom"), "answered 500: boom"),
        (web.Response(status=401, text='{"error": "token is wrong"}'), "answered 401: token is wrong"),
        (web.Response(status=503, text="busy"), "answered 503: busy"),
        (web.Response(status=302, headers={"Location": "http://127.0.0.1:9"}), "answered 302"),
        (web.Response(text=TRACEBACK), "not a JSON object; the body begins: Traceback (most recent call last)"),
        (web.Response(text='{"error": "no such table"}'), 'it has no "result"; the body begins: no such table'),
        (web.Response(text='{"result": [[1, "x"]]}'), "row 0 holds the text 'x'"),
        (web.Response(text='{"result": [[1, 2], [3]]}'), "row 1 has 1 numbers"),
        (web.Response(text='{"result": [[1, 2]'), "it ends before the array is closed"),
        (web.Response(text=""), "its body is empty"),
    ],
    ids=["500", "401", "503", "redirect", "traceback", "error", "text", "ragged", "cut", "empty"],
)
async def test_an_input_that_was_not_agreed_fails_with_what_the_handler_said(
    krateo: Machine, handler: Handler, model: CountingModel, answer: web.Response, said: str
) -> None:
    async def give(_: web.Request) -> web.StreamResponse:
        return answer

    handler.answer_input = give
    ended = await krateo.pod()
    assert (ended.code, ended.result.reason) == (3, "InputFailed")
    assert said in ended.message
    assert f"{handler.url}/compute/input" in ended.message
    assert not model.requests
    assert not handler.stored


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (web.Response(status=500, text="boom"), "answered 500: boom"),
        (web.Response(status=413, text="too large"), "answered 413: too large"),
        (
            web.Response(text=TRACEBACK, content_type="application/json"),
            "answered 200: Traceback (most recent call last)",
        ),
        (web.Response(text='{"error": "disk full"}'), "answered 200: disk full"),
        (web.Response(text="missing agument for call: output_table_name"), "answered 200: missing agument"),
    ],
    ids=["500", "413", "traceback", "error", "text"],
)
async def test_an_answer_that_was_not_agreed_is_a_failed_store(
    krateo: Machine, handler: Handler, answer: web.Response, said: str
) -> None:
    async def take(_: web.Request) -> web.StreamResponse:
        return answer

    handler.answer_output = take
    ended = await krateo.pod()
    assert (ended.code, ended.result.reason) == (5, "OutputFailed")
    assert said in ended.message
    assert ended.result.records.completed == 150


@pytest.mark.parametrize("text", ["", " \n", '{"result": "ok"}', "[]", "null", '{"error": ""}'])
async def test_an_empty_or_json_answer_is_a_stored_run(krateo: Machine, handler: Handler, text: str) -> None:
    async def take(_: web.Request) -> web.StreamResponse:
        return web.Response(text=text)

    handler.answer_output = take
    assert (await krateo.pod()).code == 0


async def test_a_handler_that_is_busy_for_a_moment_is_asked_again(krateo: Machine, handler: Handler) -> None:
    tries: list[str] = []

    async def busy_once(request: web.Request) -> web.StreamResponse | None:
        tries.append(request.path)
        return web.Response(status=503, headers={"Retry-After": "0"}) if tries.count(request.path) == 1 else None

    handler.answer_input = handler.answer_output = busy_once
    assert (await krateo.pod(INFERRUN_RETRY_SECONDS="20")).code == 0
    assert len(tries) == 4
    assert len(handler.stored) == 1


async def test_a_store_that_may_have_happened_is_not_posted_twice_by_one_pod(krateo: Machine, handler: Handler) -> None:
    posts: list[int] = []

    async def cut_off(request: web.Request) -> web.StreamResponse | None:
        posts.append(1)
        assert request.transport
        request.transport.close()
        return None

    handler.answer_output = cut_off
    ended = await krateo.pod(INFERRUN_RETRY_SECONDS="20")
    assert ended.code == 5
    assert "whether it stored the predictions is not known" in ended.message
    assert len(posts) == 1


async def test_more_than_the_limit_fails_with_the_numbers(krateo: Machine, handler: Handler) -> None:
    handler.rows = [[float(index), 0.25] for index in range(300_000)]
    ended = await krateo.pod(INFERRUN_POST_LIMIT=str(1 << 20), INFERRUN_BATCH_ROWS="5000")
    assert ended.code == 5
    assert "one POST of 2.8 MiB, at most 1.0 MiB" in ended.message
    assert "Accept-Chunks: predictions" in ended.message
    assert (handler.options, handler.stored) == (1, [])


async def test_a_handler_that_takes_chunks_gets_them_within_the_limit(krateo: Machine, handler: Handler) -> None:
    handler.takes_chunks = True
    handler.rows = [[float(index), 0.25] for index in range(5000)]
    ended = await krateo.pod(INFERRUN_POST_LIMIT="10240")
    assert ended.code == 0
    assert handler.predictions() == [index + 0.25 for index in range(5000)]
    assert [body["chunk"] for body in handler.stored] == list(range(len(handler.stored)))
    sizes = [len(orjson.loads(body["predictions"])) for body in handler.stored]
    assert [body["offset"] for body in handler.stored] == [sum(sizes[:place]) for place in range(len(sizes))]
    assert all(int(headers["Content-Length"]) <= 10240 for headers in handler.headers if "Content-Length" in headers)
    assert len(handler.stored) > 3


async def test_a_handler_under_the_limit_is_never_asked_for_chunks(krateo: Machine, handler: Handler) -> None:
    handler.takes_chunks = True
    await krateo.pod()
    assert handler.options == 0
    assert not {"chunk", "offset"} & set(handler.stored[0])


async def test_texts_and_several_values_per_record_arrive_flat_and_whole(
    krateo: Machine, handler: Handler, model: CountingModel
) -> None:
    handler.rows = ROWS[:2]

    async def texts(_: web.Request) -> web.StreamResponse | None:
        data = ['a"b', "c\\d", "e,f\n", "ü"]
        return web.json_response({"outputs": [{"name": "o", "shape": [2, 2], "datatype": "BYTES", "data": data}]})

    model.before = texts
    assert (await krateo.pod()).code == 0
    assert handler.predictions() == ['a"b', "c\\d", "e,f\n", "ü"]


async def test_a_missing_secret_names_itself(krateo: Machine) -> None:
    (krateo.folder / "endpoints" / "input" / "server-url").unlink()
    ended = await krateo.pod()
    assert ended.code == 3
    assert ended.message.startswith("input.krateo.api.endpointRef: Secret 'handler-endpoint' has no key server-url")


async def test_no_token_is_ever_shown(krateo: Machine, handler: Handler) -> None:
    async def refuse(_: web.Request) -> web.StreamResponse:
        return web.Response(status=403, text="no")

    handler.answer_output = refuse
    ended = await krateo.process()
    assert ended.code == 5
    assert "secret-of" not in ended.stdout + ended.stderr + json.dumps(ended.result.model_dump(mode="json"))


async def test_a_handler_that_is_not_there_is_told_by_its_layer(krateo: Machine) -> None:
    krateo.endpoint("input", {"server-url": "http://127.0.0.1:9"})
    ended = await krateo.pod()
    assert ended.code == 3
    assert "no connection to 127.0.0.1:9: Connection refused" in ended.message


@pytest.mark.parametrize(
    ("rows", "code", "said"),
    [
        (40_000, 3, "the input could not be spooled to"),
        (9_000, 5, "the predictions could not be spooled to"),
    ],
    ids=["input", "output"],
)
async def test_a_pod_without_room_for_its_spool_is_told(
    krateo: Machine, handler: Handler, rows: int, code: int, said: str
) -> None:
    handler.rows = [[0.123456789, 0.5]] * rows
    with small_volume(krateo.folder / "tmp", kib=256):
        ended = await krateo.pod()
    assert ended.code == code
    assert said in ended.message
    assert "No space left on device; the Pod's ephemeral storage must hold" in ended.message
    assert not handler.stored
