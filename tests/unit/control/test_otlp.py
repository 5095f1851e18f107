"""What becomes of spans that cannot be delivered."""

import logging
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from control.otlp import Collector
from control.spans import Span
from inferrun.run_ref import RunRef

RUN = RunRef(namespace="team", name="nightly", uid="0f3c5ad2-4d52-4e6b-9d30-0e8f8f5d2a11")
NOW = datetime(2026, 11, 28, tzinfo=UTC)
SPAN = Span(run=RUN, name="LaunchJob", start=NOW, end=NOW)


class FakeExporter(SpanExporter):
    """Answers as the collector does whose answers it has; takes everything after these."""

    def __init__(self, *answers: SpanExportResult | Exception) -> None:
        self._answers = list(answers)
        self.calls: list[int] = []
        self.answering = threading.Event()
        self.answering.set()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.calls.append(len(spans))
        self.answering.wait(60)
        answer = self._answers.pop(0) if self._answers else SpanExportResult.SUCCESS
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture(autouse=True)
def _only_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control.otlp.DELIVERY_MILLISECONDS", 60_000)


async def test_spans_are_delivered_together() -> None:
    exporter = FakeExporter()
    collector = Collector(exporter, program="worker")
    for _ in range(3):
        collector.add(SPAN)
    await collector.deliver()
    await collector.deliver()
    assert exporter.calls == [3]


async def test_what_the_collector_does_not_take_is_delivered_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("control.otlp.PAUSE_SECONDS", 0)
    exporter = FakeExporter(SpanExportResult.FAILURE, SpanExportResult.FAILURE)
    collector = Collector(exporter, program="worker")
    collector.add(SPAN)
    with caplog.at_level(logging.WARNING):
        await collector.deliver()
    assert exporter.calls == [1, 1, 1]
    assert [record.__dict__["spans"] for record in caplog.records] == [1, 1]


async def test_nothing_waits_for_a_collector_that_takes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("control.otlp.LIMIT_SECONDS", 0.1)
    collector = Collector(FakeExporter(SpanExportResult.FAILURE), program="worker")
    collector.add(SPAN)
    await collector.deliver()
    monkeypatch.setattr("control.otlp.LIMIT_SECONDS", 60)
    collector.add(SPAN)
    started = time.monotonic()
    await collector.deliver()
    assert time.monotonic() - started < 5


async def test_a_collector_that_hangs_is_not_waited_for_and_gets_the_spans_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("control.otlp.LIMIT_SECONDS", 0.1)
    exporter = FakeExporter()
    exporter.answering.clear()
    collector = Collector(exporter, program="worker")
    for _ in range(2):
        collector.add(SPAN)
        await collector.deliver()
    monkeypatch.setattr("control.otlp.LIMIT_SECONDS", 60)
    exporter.answering.set()
    await collector.deliver()
    assert exporter.calls == [1, 1]


async def test_an_error_of_the_exporter_drops_the_spans_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    exporter = FakeExporter(RuntimeError("not expected"))
    collector = Collector(exporter, program="worker")
    collector.add(SPAN)
    with caplog.at_level(logging.ERROR):
        await collector.deliver()
        collector.add(SPAN)
        await collector.deliver()
    assert exporter.calls == [1, 1]
    assert "not expected" in caplog.text
