"""What becomes of spans that cannot be delivered."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from control.otlp import Collector, DeliveryTiming
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


def timing(*, limit: float = 60, pause: float = 120) -> DeliveryTiming:
    """Nothing is delivered that nothing waits for."""
    return DeliveryTiming(every=60, request=0.001, limit=limit, pause=pause)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not is_so():  # noqa: ASYNC110 -- threads deliver
            await asyncio.sleep(0.01)


async def test_spans_are_delivered_together() -> None:
    exporter = FakeExporter()
    collector = Collector(exporter, program="worker", timing=timing())
    for _ in range(3):
        collector.add(SPAN)
    await collector.deliver()
    await collector.deliver()
    assert exporter.calls == [3]


async def test_what_the_collector_does_not_take_is_delivered_later(
    caplog: pytest.LogCaptureFixture,
) -> None:
    exporter = FakeExporter(SpanExportResult.FAILURE, SpanExportResult.FAILURE)
    collector = Collector(exporter, program="worker", timing=timing(limit=0.01, pause=0.02))
    collector.add(SPAN)
    with caplog.at_level(logging.WARNING):
        await collector.deliver()
        await until(lambda: exporter.calls == [1, 1, 1])
    assert [record.__dict__["spans"] for record in caplog.records] == [1, 1]


async def test_nothing_waits_for_a_collector_that_takes_nothing() -> None:
    collector = Collector(
        FakeExporter(SpanExportResult.FAILURE), program="worker", timing=timing(limit=0.1)
    )
    collector.add(SPAN)
    await collector.deliver()
    collector.add(SPAN)
    started = time.monotonic()
    await collector.deliver()
    assert time.monotonic() - started < 5


async def test_a_collector_that_hangs_is_not_waited_for_and_gets_the_spans_once() -> None:
    exporter = FakeExporter()
    exporter.answering.clear()
    collector = Collector(exporter, program="worker", timing=timing(limit=0.1))
    for _ in range(2):
        collector.add(SPAN)
        await collector.deliver()
    exporter.answering.set()
    await until(lambda: exporter.calls == [1, 1])


async def test_an_error_of_the_exporter_drops_the_spans_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    exporter = FakeExporter(RuntimeError("not expected"))
    collector = Collector(exporter, program="worker", timing=timing())
    collector.add(SPAN)
    with caplog.at_level(logging.ERROR):
        await collector.deliver()
        collector.add(SPAN)
        await collector.deliver()
    assert exporter.calls == [1, 1]
    assert "not expected" in caplog.text
