"""Spans of requests: of a sample, with the header for the model server."""

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from inferrun.plugins import Fault, FaultKind, InferenceError
from inferrun_runner.network.spans import TRACE_HEADERS, Spans, request_span, step_span
from tests.unit.runner.batches import batch

TRACE, LAUNCH = "0f3c5ad24d524e6b9d300e8f8f5d2a11", "8a8aef7f4f2d0b52"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("inferrun_runner.network.spans.time.monotonic", lambda: now[0])
    return now


@pytest.fixture
def exported() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def spans(clock: list[float], exported: InMemorySpanExporter) -> Spans:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exported))
    parent = TraceContextTextMapPropagator().extract({"traceparent": f"00-{TRACE}-{LAUNCH}-01"})
    return Spans(provider, parent)


def test_a_request_has_a_span_below_its_launch_and_a_header(
    spans: Spans, exported: InMemorySpanExporter
) -> None:
    with spans.request(batch([1.0, 2.0], first=7)):
        header = TRACE_HEADERS.get()["traceparent"]
    (span,) = exported.get_finished_spans()
    assert header == f"00-{TRACE}-{span.context.span_id:016x}-01"
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == LAUNCH
    assert dict(span.attributes or {}) == {"inferrun.first_record": 7, "inferrun.records": 2}
    assert TRACE_HEADERS.get(None) is None


@pytest.mark.parametrize(
    "error",
    [
        Fault(InferenceError("it returned 503"), kind=FaultKind.UNAVAILABLE),
        InferenceError("it returned 503"),
    ],
)
def test_a_failed_request_says_why(
    spans: Spans, exported: InMemorySpanExporter, error: Exception
) -> None:
    with pytest.raises(type(error)), spans.request(batch([1.0])):
        raise error
    (span,) = exported.get_finished_spans()
    assert (span.status.status_code, span.status.description) == (
        StatusCode.ERROR,
        "it returned 503",
    )
    assert not span.events


def test_requests_have_fewer_spans_the_longer_a_run_takes(
    spans: Spans, exported: InMemorySpanExporter, clock: list[float]
) -> None:
    seconds = 3600
    for _ in range(seconds * 20):
        with spans.request(batch([1.0])):
            pass
        clock[0] += 0.05
    assert 800 < len(exported.get_finished_spans()) < 900


def test_without_a_collector_there_are_neither_spans_nor_headers() -> None:
    with step_span("open the input"), request_span(batch([1.0])):
        assert TRACE_HEADERS.get(None) is None
