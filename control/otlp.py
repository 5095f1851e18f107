"""Sends spans to a collector by OTLP over HTTP, with OpenTelemetry's exporter, whose variables apply (OTEL_EXPORTER_OTLP_HEADERS
and others).
"""

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

from control.tracing import Span, run_span_id, trace_id

logger = logging.getLogger(__name__)

TIMEOUT_SECONDS: Final = 2.0
"""Of each connection and each response."""

logging.getLogger("opentelemetry").setLevel(logging.ERROR)  # not each of its tries, but why the last one failed


class Exporter:
    """`program` is the service of the spans."""

    def __init__(self, *, program: str) -> None:
        self._exporter = OTLPSpanExporter(timeout=TIMEOUT_SECONDS)
        self._resource = Resource.create({"service.name": f"inferrun-{program}"})
        self._ids = RandomIdGenerator()

    def deliver(self, spans: Sequence[Span]) -> bool:
        """As described in `control.tracing.Deliver`. Spans that cannot be sent at all are dropped: nothing fails for them."""
        try:
            return self._exporter.export([self._readable(span) for span in spans]) is SpanExportResult.SUCCESS
        except Exception:
            logger.exception("spans cannot be sent")
            return True

    def _readable(self, span: Span) -> ReadableSpan:
        uid, run = span.run.uid, span.run
        parent = run_span_id(uid) if span.parent is None else span.parent
        attributes = {
            "k8s.namespace.name": run.namespace,
            "inferrun.run.name": run.name,
            "inferrun.run.uid": uid,
            **{name: value for name, value in span.attributes.items() if value is not None},
        }
        return ReadableSpan(
            span.name,
            context=_context(uid, span.id or self._ids.generate_span_id()),
            parent=_context(uid, parent) if parent else None,
            resource=self._resource,
            attributes=attributes,
            status=Status(StatusCode.ERROR, span.error) if span.error else Status(),
            start_time=_nanoseconds(span.start),
            end_time=_nanoseconds(max(span.start, span.end)),
        )


def _context(uid: str, span_id: int) -> SpanContext:
    return SpanContext(trace_id(uid), span_id, is_remote=False, trace_flags=TraceFlags(TraceFlags.SAMPLED))


def _nanoseconds(time: datetime) -> int:
    return round(time.timestamp() * 1_000_000) * 1000
