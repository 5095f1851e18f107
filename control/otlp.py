"""Sends spans to a collector by OTLP over HTTP, with OpenTelemetry's processor and exporter, whose
variables apply (OTEL_EXPORTER_OTLP_HEADERS and others).
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from threading import Thread
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from control.spans import Span, run_span_id, trace_id

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class DeliveryTiming:
    """Seconds."""

    every: float = 1.0
    """The time between two deliveries of spans for which nothing waits."""

    request: float = 2.0
    """The limit of each connection and each response."""

    limit: float = 3.0
    """The time for which a delivery is waited for, whatever the collector and the name service
    do."""

    pause: float = 10.0
    """The time between two tries to deliver the same spans. Nothing waits for a delivery
    meanwhile."""

    def __post_init__(self) -> None:
        if not self.request < self.limit < self.pause:
            raise ValueError(f"needs request < limit < pause, not {self}")


WAITING_SPANS: Final = 4096
"""Spans that are kept until they can be delivered; the oldest are dropped for further ones."""

# Not each of its tries, but why the last one failed.
logging.getLogger("opentelemetry.exporter").setLevel(logging.ERROR)


class Collector:
    """`program` is the service of the spans."""

    def __init__(
        self,
        exporter: SpanExporter | None = None,
        *,
        program: str,
        timing: DeliveryTiming | None = None,
    ) -> None:
        """Without an exporter, it is the one that OpenTelemetry's variables select."""
        self._timing = timing or DeliveryTiming()
        exporter = exporter or OTLPSpanExporter(timeout=self._timing.request)
        self._exporter = _LastingExporter(exporter, pause=self._timing.pause)
        self._processor = BatchSpanProcessor(
            self._exporter, WAITING_SPANS, 1000 * self._timing.every
        )
        self._resource = Resource.create({"service.name": f"inferrun-{program}"})
        self._ids = RandomIdGenerator()

    def add(self, span: Span) -> None:
        """Have the span delivered soon."""
        uid, run = span.run.uid, span.run
        parent = run_span_id(uid) if span.parent is None else span.parent
        attributes = {
            "k8s.namespace.name": run.namespace,
            "inferrun.run.name": run.name,
            "inferrun.run.uid": uid,
            **{name: value for name, value in span.attributes.items() if value is not None},
        }
        finished = ReadableSpan(
            span.name,
            context=_context(uid, span.id or self._ids.generate_span_id()),
            parent=_context(uid, parent) if parent else None,
            resource=self._resource,
            attributes=attributes,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
            start_time=_nanoseconds(span.start),
            end_time=_nanoseconds(max(span.start, span.end)),
        )
        self._processor.on_end(finished)

    async def deliver(self) -> None:
        """Wait until the spans so far are delivered, for no longer than the limit, and not while
        the collector takes none."""
        if self._exporter.is_refused:
            return
        flushed = Future[bool]()
        # What hangs there holds up nothing else, neither a pool of threads nor the end of the
        # process.
        Thread(
            target=lambda: flushed.set_result(self._processor.force_flush()),
            name="spans",
            daemon=True,
        ).start()
        await asyncio.wait({asyncio.wrap_future(flushed)}, timeout=self._timing.limit)


class _LastingExporter(SpanExporter):
    """Tries again until the collector has the spans: OpenTelemetry's processor drops those that are
    not delivered at once."""

    def __init__(self, exporter: SpanExporter, *, pause: float) -> None:
        self._exporter = exporter
        self._pause = pause
        self.is_refused = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        try:
            while self._exporter.export(spans) is not SpanExportResult.SUCCESS:
                self.is_refused = True
                logger.warning("the collector did not take spans", extra={"spans": len(spans)})
                time.sleep(self._pause)
        finally:
            self.is_refused = False
        return SpanExportResult.SUCCESS


def _context(uid: str, span_id: int) -> SpanContext:
    return SpanContext(
        trace_id(uid), span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED)
    )


def _nanoseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1_000_000) * 1000
