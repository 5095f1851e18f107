"""The metrics of shim and worker, each declared once: names and labels are API, and
`docs/reference/metrics.md` is generated from them. Shim and worker serve them under /metrics; what
the Temporal SDK measures has a port of its own.

No label names a run, a Pod or a Job: the number of series does not grow with the number of runs.
"""

import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from types import SimpleNamespace
from typing import Final, cast

import aiohttp
from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig


@dataclass(frozen=True, kw_only=True, eq=False)
class Metric:
    """A counter if the name ends with `_total`, a histogram if there are buckets, otherwise a
    gauge."""

    name: str
    labels: tuple[str, ...]
    meaning: str
    question: str
    """Which question of an operator it answers."""

    buckets: tuple[float, ...] = ()
    """Upper limits, in the unit of the name."""

    @property
    def kind(self) -> str:
        return (
            "histogram" if self.buckets else "counter" if self.name.endswith("_total") else "gauge"
        )


_OF_RUN: Final = ("namespace", "config")
_BRIEF: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_WAITS: Final = (1, 2, 5, 10, 30, 60, 300, 1800, 10800)

RUNS: Final = Metric(
    name="inferrun_runs",
    labels=(*_OF_RUN, "phase", "reason"),
    meaning="InferenceRuns that exist, schedules included, by what their status says",
    question="How many runs wait, run or have ended, and what do those that wait wait for?",
)
RUNS_ENDED: Final = Metric(
    name="inferrun_runs_ended_total",
    labels=(*_OF_RUN, "phase", "reason"),
    meaning="Runs that have ended",
    question="Which share of the runs fails, and why?",
)
RUN_TIME_TO_JOB: Final = Metric(
    name="inferrun_run_time_to_job_seconds",
    labels=_OF_RUN,
    buckets=_WAITS,
    meaning="Time from the creation of a run until its first Job, waits included; Kubernetes gives the creation to a second",
    question="How long does it take until an applied run is launched?",
)
RUN_WAITING: Final = Metric(
    name="inferrun_run_waiting_seconds_total",
    labels=(*_OF_RUN, "reason"),
    meaning="Time that runs have spent in phase Pending; a run that waits adds a second per second",
    question="What do runs lose their time with before they run?",
)
RUN_DURATION: Final = Metric(
    name="inferrun_run_duration_seconds",
    labels=(*_OF_RUN, "phase"),
    buckets=(10, 60, 300, 900, 3600, 10800, 43200, 172800),
    meaning="Time from the start of a run (from its creation if it never ran) to its end",
    question="How long do runs take, and do they take longer than they used to?",
)
ATTEMPTS: Final = Metric(
    name="inferrun_run_attempts_total",
    labels=(*_OF_RUN, "reason"),
    meaning="Attempts that have ended, by how; disruptions are not attempts",
    question="How often is work repeated because an attempt failed, and why do attempts fail?",
)
DISRUPTIONS: Final = Metric(
    name="inferrun_run_disruptions_total",
    labels=(*_OF_RUN, "reason"),
    meaning="Pods of runs that were evicted, preempted or deleted, or whose node was lost",
    question="How much does the cluster disturb runs?",
)
RECORDS: Final = Metric(
    name="inferrun_records_total",
    labels=(*_OF_RUN, "outcome"),
    meaning="Records of runs that have ended: completed (with a prediction) or failed (with an error)",
    question="How much work is done, and which share of the records fails?",
)
TOKENS: Final = Metric(
    name="inferrun_tokens_total",
    labels=(*_OF_RUN, "type"),
    meaning="Tokens that model servers counted, prompt or completion, as the predictions with them are committed",
    question="Who uses how many tokens?",
)
RUNNING_RECORDS: Final = Metric(
    name="inferrun_running_records",
    labels=(*_OF_RUN, "outcome"),
    meaning="Records of the runs that are running: completed, failed, or remaining if the total is known",
    question="How far have the runs in progress come?",
)
RUNNING_RATE: Final = Metric(
    name="inferrun_running_records_per_second",
    labels=_OF_RUN,
    meaning="Records per second over the last minute, as the built-in runner reports it, of all runs that are running",
    question="How fast are the runs in progress, and has one of them come to a halt?",
)
RUNNING_CONCURRENCY: Final = Metric(
    name="inferrun_running_concurrent_requests",
    labels=_OF_RUN,
    meaning="Requests that the built-in runners of all running runs may have in flight at a time",
    question="How much load do runs put on the model servers, and do the runners back off?",
)
REQUESTS: Final = Metric(
    name="inferrun_model_requests_total",
    labels=(*_OF_RUN, "outcome"),
    meaning="Requests to model servers, succeeded or failed, as the built-in runner of one Pod of each running run reports them",
    question="Do model servers fail requests, so that they are sent again?",
)
REQUEST_SECONDS: Final = Metric(
    name="inferrun_model_request_seconds_total",
    labels=_OF_RUN,
    meaning="Time that these requests took; the increase per second is the number of requests in flight, on average",
    question="How long does a model server take for a request, and how many are in flight?",
)
REQUEST_BYTES: Final = Metric(
    name="inferrun_model_request_bytes_total",
    labels=(*_OF_RUN, "direction"),
    meaning="Size of the records that these requests sent, and of the predictions that were received, without protocol and headers",
    question="How much data do runs move, and have records or predictions become larger?",
)
SCHEDULE_TIMES: Final = Metric(
    name="inferrun_schedule_times_total",
    labels=(*_OF_RUN, "outcome"),
    meaning="Scheduled times by what became of them: started, skipped, replaced, missed, suspended or rejected",
    question="Does each schedule start its runs, and if not, why?",
)
SCHEDULE_LAG: Final = Metric(
    name="inferrun_schedule_lag_seconds",
    labels=_OF_RUN,
    buckets=_WAITS,
    meaning="Time from a scheduled time to the creation of its run, jitter included",
    question="Are scheduled runs created in time?",
)
LEADER: Final = Metric(
    name="inferrun_leader",
    labels=("name",),
    meaning="1 if this process is the leader; only shims elect one",
    question="Does exactly one shim act on Jobs?",
)
TEMPORAL_REACHABLE: Final = Metric(
    name="inferrun_temporal_reachable",
    labels=("program",),
    meaning="1 if Temporal has answered this process within the last 30 seconds; the label is shim or worker",
    question="Do shim and worker reach Temporal?",
)
QUEUE_DEPTH: Final = Metric(
    name="inferrun_queue_depth",
    labels=("queue",),
    meaning="Objects of a work queue of the shim that are due and not being reconciled yet",
    question="Does the shim keep up?",
)
RECONCILE_DURATION: Final = Metric(
    name="inferrun_reconcile_duration_seconds",
    labels=("queue", "outcome"),
    buckets=_BRIEF,
    meaning="Time that the reconcile of an object took: success, or error, after which it is tried again",
    question="Which part of the shim is slow or fails?",
)
SURVIVED: Final = Metric(
    name="inferrun_survived_errors_total",
    labels=("doing",),
    meaning="Errors about one object, or in one round of what is periodic, after which the program went on; the log has each",
    question="Which part of the shim or the worker fails again and again, outside its queues?",
)
API_REQUESTS: Final = Metric(
    name="inferrun_api_request_duration_seconds",
    labels=("verb", "resource", "code"),
    buckets=_BRIEF,
    meaning="Time until the API server began to answer, by the answer's status code; code none if there was no answer",
    question="How many requests does the product make, and is the API server slow, overloaded or forbidding?",
)
BUILD_INFO: Final = Metric(
    name="inferrun_build_info",
    labels=("version",),
    meaning="1; the label is the version of the program",
    question="Which versions run, for example in the middle of an upgrade?",
)

METRICS: Final = tuple(one for one in list(globals().values()) if isinstance(one, Metric))

_VERBS: Final = {"POST": "create", "PATCH": "patch", "DELETE": "delete"}
_PATH: Final = re.compile(
    r"/(?:api/v1|apis/[^/]+/[^/]+)(?:/namespaces/[^/]+(?=/))?/([^/]+)(/[^/]+)?(/[^/]+)?"
)


class Metrics:
    """The metrics of one process. `temporal_port`: where the Temporal SDK serves its own; 0: it
    does not."""

    def __init__(self, *, temporal_port: int = 0) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # they would double the number of series
        self.registry = CollectorRegistry()
        self._series: dict[Metric, Counter | Gauge | Histogram] = {}
        for one in METRICS:
            if one.kind == "histogram":
                self._series[one] = Histogram(
                    one.name, one.meaning, one.labels, buckets=one.buckets, registry=self.registry
                )
            elif one.kind == "counter":
                self._series[one] = Counter(
                    one.name, one.meaning, one.labels, registry=self.registry
                )
            else:
                self._series[one] = Gauge(one.name, one.meaning, one.labels, registry=self.registry)
        ProcessCollector(registry=self.registry)
        self.record(BUILD_INFO, 1, version("inferrun"))
        self.temporal = _temporal_runtime(temporal_port) if temporal_port else None
        """For connections to Temporal; None for the SDK's default, which serves no metrics."""

    def record(self, metric: Metric, value: float, *labels: str) -> None:
        """Add to a counter, observe in a histogram, or set a gauge."""
        series = self._series[metric]
        if isinstance(series, Counter):
            series.labels(*labels).inc(value)
        elif isinstance(series, Histogram):
            series.labels(*labels).observe(value)
        else:
            series.labels(*labels).set(value)

    def show(self, metric: Metric, read: Callable[[], float], *labels: str) -> None:
        """Have a gauge show what `read` returns when it is scraped."""
        cast("Gauge", self._series[metric]).labels(*labels).set_function(read)

    def fill(self, metric: Metric, read: Callable[[], Mapping[tuple[str, ...], float]]) -> None:
        """Have a gauge or a counter consist of the series that `read` returns when it is scraped,
        each by its labels."""
        self.registry.unregister(self._series.pop(metric))
        self.registry.register(_Table(metric, read))

    def trace_api(self) -> aiohttp.TraceConfig:
        """Measures the requests to the API server."""

        async def begin(
            _session: aiohttp.ClientSession, request: SimpleNamespace, _seen: object
        ) -> None:
            request.began = time.monotonic()

        async def end(
            _session: aiohttp.ClientSession,
            request: SimpleNamespace,
            seen: aiohttp.TraceRequestEndParams | aiohttp.TraceRequestExceptionParams,
        ) -> None:
            code = (
                str(seen.response.status)
                if isinstance(seen, aiohttp.TraceRequestEndParams)
                else "none"
            )
            labels = verb_and_resource(
                seen.method, seen.url.raw_path, is_watch="watch" in seen.url.query
            )
            self.record(API_REQUESTS, time.monotonic() - request.began, *labels, code)

        trace = aiohttp.TraceConfig()
        trace.on_request_start.append(begin)
        trace.on_request_end.append(end)
        trace.on_request_exception.append(end)
        return trace


def verb_and_resource(method: str, path: str, *, is_watch: bool) -> tuple[str, str]:
    """What Kubernetes calls a request, such as `patch` and `inferenceruns/status`."""
    found = _PATH.match(path)
    if found is None:
        return "get", "(other)"
    plural, name, sub = found.groups()
    read = "watch" if is_watch else "get" if name else "list"
    return _VERBS.get(method, read), f"{plural}{sub or ''}"


class _Table:
    def __init__(self, metric: Metric, read: Callable[[], Mapping[tuple[str, ...], float]]) -> None:
        self._metric = metric
        self._read = read

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        kind = CounterMetricFamily if self._metric.kind == "counter" else GaugeMetricFamily
        family = kind(self._metric.name, self._metric.meaning, labels=self._metric.labels)
        for labels, value in self._read().items():
            family.add_metric(labels, value)
        yield family


def _temporal_runtime(port: int) -> Runtime:
    host = "[::]" if socket.has_dualstack_ipv6() else "0.0.0.0"  # noqa: S104 -- Prometheus scrapes it, like /metrics
    config = PrometheusConfig(
        bind_address=f"{host}:{port}",
        counters_total_suffix=True,
        unit_suffix=True,
        durations_as_seconds=True,
    )
    return Runtime(telemetry=TelemetryConfig(metrics=config))
