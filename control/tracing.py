"""Traces of runs in OpenTelemetry, if the operator has named a collector: one trace per run, whose id is the run's UID.

The ids of the spans that others refer to are derived from the UID as well. Nothing about traces has to pass through Temporal or the
cluster: any process adds to a run's trace at any time, after a restart, a takeover and the loss of Temporal's history.
"""

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeAlias
from uuid import UUID

from control.settings import ControlSettings
from control.survival import surviving
from inferrun.run_ref import RunRef

logger = logging.getLogger(__name__)

DELIVERY_SECONDS: Final = 1.0
"""Between two deliveries of spans for which nothing waits."""

LIMIT_SECONDS: Final = 3.0
"""For which a delivery is waited for, whatever the collector and the name service do."""

PAUSE_SECONDS: Final = 10.0
"""After a failed delivery, none is tried for so long: what waits for one goes on at once."""

WAITING_SPANS: Final = 4096
"""Spans that are kept until they can be delivered. Further ones are dropped."""

Value: TypeAlias = str | int | float | bool


@dataclass(frozen=True, kw_only=True)
class Span:
    """Something that was done for a run. It is below the run's own span unless it has another parent."""

    run: RunRef
    name: str
    start: datetime
    end: datetime
    id: int = 0
    """If others refer to it; 0: any."""

    parent: int | None = None
    """The id of another span; 0: it has none. None: the run's own span."""

    attributes: Mapping[str, Value | None] = field(default_factory=dict)
    error: str = ""
    """Why it failed; empty if it did not."""


Deliver = Callable[[Sequence[Span]], bool]
"""Sends spans to the collector, in a thread of its own; returns whether it has them."""


def trace_id(uid: str) -> int:
    """The id of a run's trace: its UID, which is 32 hexadecimal digits without its dashes."""
    try:
        number = UUID(uid).int
    except ValueError:
        number = 0
    return number or int.from_bytes(hashlib.sha256(uid.encode()).digest()[:16])


def run_span_id(uid: str) -> int:
    """The id of the span from the creation of a run to its end, the root of the trace."""
    return _derived(uid, "run")


def launch_span_id(uid: str, launch: int) -> int:
    """The id of the span of a launch, below which its Pods write their own."""
    return _derived(uid, f"launch/{launch}")


def start_span_id(uid: str) -> int:
    """The id of the span until a workflow was started for the run: several shims may do that at the same time."""
    return _derived(uid, "start")


def _derived(uid: str, what: str) -> int:
    return int.from_bytes(hashlib.sha256(f"{uid}/{what}".encode()).digest()[:8]) or 1


class Traces:
    """Collects the spans of a process. `ratio` is the share of the runs that are traced: all processes choose the same ones."""

    def __init__(self, deliver: Deliver | None, *, endpoint: str = "", ratio: float = 1.0) -> None:
        """Without `deliver`, there are no traces."""
        self._deliver = deliver
        self._endpoint = endpoint
        self._bound = int(ratio * 2**64)
        self._waiting: list[Span] = []
        self._delivering = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spans")  # what hangs there holds up nothing else
        self._resumes_at = 0.0
        self._dropped = 0

    def includes(self, uid: str) -> bool:
        """Whether the run is traced."""
        # Not by the digits of the UID: some of them are the same in all UIDs.
        return self._deliver is not None and _derived(uid, "share") <= self._bound

    def add(self, *spans: Span) -> None:
        """Have the spans of a run delivered soon, if it is traced."""
        self._keep([span for span in spans if self.includes(span.run.uid)])

    def _keep(self, spans: Sequence[Span]) -> None:
        room = WAITING_SPANS - len(self._waiting)
        self._waiting += spans[:room]
        self._dropped += len(spans[room:])

    async def deliver(self) -> None:
        """Deliver what was added. What the collector does not take within LIMIT_SECONDS is kept for a later delivery."""
        if self._deliver is None:
            return
        async with self._delivering:
            spans, now = self._waiting, time.monotonic()
            if not spans or now < self._resumes_at:
                return
            self._waiting, is_delivered = [], False
            try:
                async with asyncio.timeout(LIMIT_SECONDS):
                    loop = asyncio.get_running_loop()
                    is_delivered = await loop.run_in_executor(self._thread, self._deliver, spans)
            except TimeoutError:
                pass
            finally:
                if not is_delivered:
                    added, self._waiting = self._waiting, []
                    self._resumes_at = time.monotonic() + PAUSE_SECONDS
                    self._keep([*spans, *added])
                if not is_delivered or self._dropped:
                    fields = {"collector": self._endpoint, "kept": len(self._waiting), "dropped": self._dropped}
                    logger.warning("the collector did not take spans", extra=fields)
                    self._dropped = 0

    async def run(self) -> None:
        """Deliver spans until cancelled."""
        while True:
            await asyncio.sleep(DELIVERY_SECONDS)
            with surviving("the delivery of spans"):
                await self.deliver()

    def variables(self, uid: str, *, launch: int) -> dict[str, str]:
        """The environment with which programs in the Pods of a launch add to the trace, as OpenTelemetry names it."""
        if not self.includes(uid):
            return {}
        context = f"00-{trace_id(uid):032x}-{launch_span_id(uid, launch):016x}-01"
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self._endpoint, "TRACEPARENT": context}


NO_TRACES: Final = Traces(None)


def open_traces(settings: ControlSettings, *, program: str) -> Traces:
    """What writes the spans of a program; nothing if the settings name no collector."""
    if not settings.traces_endpoint:
        return NO_TRACES
    from control.otlp import Exporter  # noqa: PLC0415  takes 0.3 s and 15 MiB, which only traces need

    exporter = Exporter(program=program)
    return Traces(exporter.deliver, endpoint=settings.traces_endpoint, ratio=settings.traces_ratio)
