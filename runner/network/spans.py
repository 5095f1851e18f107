"""Spans of the runner in the trace of its run, below the span of its launch, if the control plane has named a collector.

They are of the process, as OpenTelemetry's are: model protocols, those of plug-ins included, know nothing of them. The model server
gets the header `traceparent` with the requests that have a span, so that its own spans are below them.
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

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider

FIRST_INTERVAL: Final = 0.1
"""Seconds between the first requests with a span. They are doubled after each SPANS_PER_INTERVAL, so that a Pod adds about 850
requests to the trace in an hour, and 1,300 in a day."""

SPANS_PER_INTERVAL: Final = 100

CLOSE_SECONDS: Final = 2.0
"""For which the process waits at its end until its spans are delivered."""

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
        from opentelemetry.trace import SpanKind, StatusCode  # noqa: PLC0415  as in `start`

        attributes = {"inferrun.first_record": batch.first, "inferrun.records": len(batch)}
        span = self._tracer.start_span("request", context=self._parent, kind=SpanKind.CLIENT, attributes=attributes)
        context = span.get_span_context()
        token = TRACE_HEADERS.set({"traceparent": f"00-{context.trace_id:032x}-{context.span_id:016x}-01"})
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


def start(parent: str, *, attempt: int, pod_uid: str) -> None:
    """Add to the trace from now on. `parent` is the header `traceparent` of the launch; one that is invalid has no trace.

    OpenTelemetry's exporter reads the address of the collector from the environment.
    """
    global _spans  # noqa: PLW0603
    # Their import takes 0.3 s.
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator  # noqa: PLC0415

    # A status quotes the last lines in the log of a run that failed.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    resource = Resource.create({"service.name": "inferrun-runner", "k8s.pod.uid": pod_uid, "inferrun.attempt": attempt})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    _spans = Spans(provider, TraceContextTextMapPropagator().extract({"traceparent": parent}))


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
