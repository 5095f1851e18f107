"""Traces of runs, if the operator has named a collector: which runs have one, and what their Pods
add to."""

from typing import TYPE_CHECKING, Final

from control.settings import ControlSettings
from control.spans import Span, launch_span_id, share, trace_id

if TYPE_CHECKING:
    from control.otlp import Collector


class Traces:
    """The traces of a process. `ratio` is the share of the runs that are traced: all processes
    choose the same ones."""

    def __init__(
        self, collector: "Collector | None", *, endpoint: str = "", ratio: float = 1.0
    ) -> None:
        """Without a collector, there are no traces."""
        self._collector = collector
        self._endpoint = endpoint
        self._ratio = ratio

    def includes(self, uid: str) -> bool:
        """Whether the run is traced."""
        return self._collector is not None and share(uid) <= self._ratio

    def add(self, *spans: Span) -> None:
        """Have the spans of a run delivered soon, if it is traced."""
        for span in spans:
            if self._collector is not None and self.includes(span.run.uid):
                self._collector.add(span)

    async def deliver(self) -> None:
        """Deliver what was added, as far as the collector takes it soon."""
        if self._collector is not None:
            await self._collector.deliver()

    def variables(self, uid: str, *, launch: int) -> dict[str, str]:
        """The environment with which programs in the Pods of a launch add to the trace, as
        OpenTelemetry names it."""
        if not self.includes(uid):
            return {}
        context = f"00-{trace_id(uid):032x}-{launch_span_id(uid, launch):016x}-01"
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self._endpoint, "TRACEPARENT": context}


NO_TRACES: Final = Traces(None)


def open_traces(settings: ControlSettings, *, program: str) -> Traces:
    """What writes the spans of a program; nothing if the settings name no collector."""
    if not settings.traces_endpoint:
        return NO_TRACES
    from control.otlp import Collector  # noqa: PLC0415  takes 0.3 s and 15 MiB, which only traces need

    return Traces(
        Collector(program=program), endpoint=settings.traces_endpoint, ratio=settings.traces_ratio
    )
