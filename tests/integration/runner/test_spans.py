"""The spans of the real program, and a collector that does not respond."""

import socket
import time

from aiohttp import web

from tests.integration.runner.pods import Machine
from tests.integration.runner.servers import CountingModel, Handler
from tests.integration.traces.collector import receiver

TRACE, LAUNCH = "0f3c5ad24d524e6b9d300e8f8f5d2a11", "8a8aef7f4f2d0b52"
PARENT = f"00-{TRACE}-{LAUNCH}-01"


async def test_a_pod_adds_its_steps_and_requests_to_the_trace_of_its_run(
    krateo: Machine, handler: Handler, model: CountingModel
) -> None:
    handler.rows = [[float(index), 1.0] for index in range(10)]
    seen: list[str] = []

    async def note(request: web.Request) -> web.StreamResponse | None:
        seen.append(request.headers.get("traceparent", ""))
        return None

    model.before = note
    async with receiver() as received:
        ended = await krateo.process(OTEL_EXPORTER_OTLP_ENDPOINT=received.url, TRACEPARENT=PARENT)
    assert ended.code == 0
    spans = received.spans
    assert {(span.service, span.trace, span.parent) for span in spans} == {
        ("inferrun-runner", TRACE, LAUNCH)
    }
    assert {span.name for span in spans} == {"open the input", "request", "commit the output"}
    assert {f"00-{TRACE}-{span.id}-01" for span in received.named("request")} == {
        one for one in seen if one
    }


async def test_a_run_does_not_wait_for_a_collector_that_does_not_respond(
    krateo: Machine, handler: Handler
) -> None:
    handler.rows = [[1.0, 2.0]]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()
        ended = await krateo.process(
            OTEL_EXPORTER_OTLP_ENDPOINT=endpoint,
            OTEL_EXPORTER_OTLP_TIMEOUT="60",
            TRACEPARENT=PARENT,
        )
    assert ended.code == 0
    assert time.monotonic() - started < 30
    assert "Traceback" not in ended.stderr


async def test_a_run_that_cannot_be_traced_does_not_fail(krateo: Machine, handler: Handler) -> None:
    handler.rows = [[1.0, 2.0]]
    invalid = {"OTEL_BSP_MAX_QUEUE_SIZE": "1", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "2"}
    ended = await krateo.process(
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9", TRACEPARENT=PARENT, **invalid
    )
    assert ended.code == 0
    assert "the run is not traced" in ended.stderr


async def test_a_run_without_a_collector_sends_no_header(
    krateo: Machine, handler: Handler, model: CountingModel
) -> None:
    handler.rows = [[1.0, 2.0]]
    seen: list[bool] = []

    async def note(request: web.Request) -> web.StreamResponse | None:
        seen.append("traceparent" in request.headers)
        return None

    model.before = note
    assert (await krateo.process()).code == 0
    assert seen
    assert not any(seen)
