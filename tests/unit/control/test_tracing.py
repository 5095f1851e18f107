"""Traces: which runs have them, and what Pods are told."""

from uuid import uuid4

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from control.otlp import Collector
from control.spans import launch_span_id
from control.tracing import NO_TRACES, Traces

UID = "0f3c5ad2-4d52-4e6b-9d30-0e8f8f5d2a11"
COLLECTOR = Collector(InMemorySpanExporter(), program="test")


def test_a_pod_is_told_which_span_its_own_are_below() -> None:
    traces = Traces(COLLECTOR, endpoint="http://collector:4318")
    context = f"00-{UID.replace('-', '')}-{launch_span_id(UID, 3):016x}-01"
    assert traces.variables(UID, launch=3) == {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
        "TRACEPARENT": context,
    }
    assert NO_TRACES.variables(UID, launch=3) == {}
    assert Traces(COLLECTOR, ratio=0).variables(UID, launch=3) == {}


def test_all_processes_trace_the_same_share_of_the_runs() -> None:
    uids = [str(uuid4()) for _ in range(2000)]
    chosen = [
        [uid for uid in uids if Traces(COLLECTOR, ratio=0.25).includes(uid)] for _ in range(2)
    ]
    assert chosen[0] == chosen[1]
    assert 400 < len(chosen[0]) < 600
    assert all(Traces(COLLECTOR).includes(uid) for uid in uids)
    assert not any(NO_TRACES.includes(uid) for uid in uids)
