"""Spans of the runner in the trace of its run, below the span of its launch, if the control plane
has named a collector.

They are of the process, as OpenTelemetry's are: model protocols, those of plug-ins included, know
nothing of them. The model server gets the header `traceparent` with the requests that have a span,
so that its own spans are below them.
"""

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from inferrun.plugins import Batch, Fault, RunnerError
from inferrun.text import one_line
from inferrun_runner.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider

_log = logging.getLogger(__name__)

FIRST_INTERVAL: Final = 0.1
"""Seconds between the first requests with a span. The interval is doubled after each
SPANS_PER_INTERVAL: that is about 850 requests of a Pod in an hour, and 1,300 in a day."""

SPANS_PER_INTERVAL: Final = 100

CLOSE_SECONDS: Final = 1.0
"""The seconds for which the process waits at its end until its spans are delivered: a part of its
grace period."""

TRACE_HEADERS: Final = ContextVar[Mapping[str, str]]("TRACE_HEADERS")
"""The headers of the request that is being sent, if it has a span."""


class Spans:
    """What a process adds to the trace."""

    def __init__(self, provider: "TracerProvider", parent: "Context") -> None:
        self._provider = provider
        self._parent = parent
        self._tracer = provider.get_tracer("inferrun.runner")
        self._requests = 0
        self._next_request = 0.0

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A span for a step of the run."""
        with self._tracer.start_as_current_span(name, context=self._parent, record_exception=False):
            yield

    def request(self, batch: Batch) -> AbstractContextManager[None]:
        """A span for a request with these records, if one is due."""
        now = time.monotonic()
        if now < self._next_request:
            return nullcontext()
        self._next_request = now + FIRST_INTERVAL * 2 ** (self._requests // SPANS_PER_INTERVAL)
        self._requests += 1
        return self._request(batch)

    @contextmanager
    def _request(self, batch: Batch) -> Iterator[None]:
        from opentelemetry.trace import SpanKind, StatusCode  # noqa: PLC0415  as in `_open`

        attributes = {"inferrun.first_record": batch.first, "inferrun.records": len(batch)}
        span = self._tracer.start_span(
            "request", context=self._parent, kind=SpanKind.CLIENT, attributes=attributes
        )
        context = span.get_span_context()
        token = TRACE_HEADERS.set(
            {"traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-01"}
        )
        try:
            yield
        except (Fault, RunnerError) as error:
            text = str(error.error if isinstance(error, Fault) else error)
            span.set_status(StatusCode.ERROR, one_line(text, limit=512))
            raise
        finally:
            TRACE_HEADERS.reset(token)
            span.end()

    def close(self) -> None:
        """Deliver what is left, for no longer than CLOSE_SECONDS."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)


_spans: Spans | None = None


def start(settings: Settings) -> None:
    """Add to the trace from now on, if the settings name a collector and a trace."""
    global _spans  # noqa: PLW0603  as in OpenTelemetry: each request would have to know it otherwise
    if not (settings.collector and settings.trace_parent):
        return
    try:
        _spans = _open(settings)
    except Exception:  # noqa: BLE001  a run does not fail because it cannot be traced
        _log.exception("the run is not traced")


def _open(settings: Settings) -> Spans:
    # Their import takes 0.3 s.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    # A status quotes the last lines in the log of a run that failed.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    resource = {"service.name": "inferrun-runner", "k8s.pod.uid": settings.pod_uid}
    provider = TracerProvider(resource=Resource.create(resource), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Spans(
        provider, TraceContextTextMapPropagator().extract({"traceparent": settings.trace_parent})
    )


def stop() -> None:
    """Deliver the last spans, if there are any."""
    if _spans is not None:
        _spans.close()


def step_span(name: str) -> AbstractContextManager[None]:
    """A span for a step of the run, if it is traced."""
    return _spans.step(name) if _spans is not None else nullcontext()


def request_span(batch: Batch) -> AbstractContextManager[None]:
    """A span for a request to the model server, if the run is traced and one is due."""
    return _spans.request(batch) if _spans is not None else nullcontext()
