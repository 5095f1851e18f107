"""Traces: the ids of spans, which runs have them, and what becomes of spans that cannot be delivered."""

import asyncio
import logging
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from control.tracing import PAUSE_SECONDS, WAITING_SPANS, Span, Traces, launch_span_id, run_span_id, trace_id
from inferrun.run_ref import RunRef

UID = "0f3c5ad2-4d52-4e6b-9d30-0e8f8f5d2a11"
RUN = RunRef(namespace="team", name="nightly", uid=UID)
NOW = datetime(2026, 11, 28, tzinfo=UTC)


class Collector:
    """Receives spans, unless it is down."""

    def __init__(self, *, is_up: bool = True) -> None:
        self.is_up = is_up
        self.calls: list[Sequence[Span]] = []

    def deliver(self, spans: Sequence[Span]) -> bool:
        self.calls.append(spans)
        return self.is_up


def span(run: RunRef = RUN) -> Span:
    return Span(run=run, name="LaunchJob", start=NOW, end=NOW)


def test_the_id_of_a_trace_is_the_uid_of_its_run() -> None:
    assert f"{trace_id(UID):032x}" == UID.replace("-", "")
    others = {trace_id(uid) for uid in ("run-1", "run-2", str(uuid4()), "00000000-0000-0000-0000-000000000000")}
    assert len(others) == 4
    assert all(0 < one < 2**128 for one in others)


def test_the_spans_of_a_run_and_its_launches_have_ids_that_every_version_finds() -> None:
    found = [run_span_id(UID), *(launch_span_id(UID, launch) for launch in range(1, 200)), run_span_id("another")]
    assert len(set(found)) == len(found)
    assert run_span_id(UID) == 0x55825A6904435F31


def test_a_pod_is_told_which_span_its_own_are_below() -> None:
    traces = Traces(Collector().deliver, endpoint="http://collector:4318")
    context = f"00-{UID.replace('-', '')}-{launch_span_id(UID, 3):016x}-01"
    assert traces.variables(UID, launch=3) == {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
        "TRACEPARENT": context,
    }
    assert Traces(None).variables(UID, launch=3) == {}
    assert Traces(Collector().deliver, ratio=0).variables(UID, launch=3) == {}


def test_all_processes_trace_the_same_share_of_the_runs() -> None:
    uids = [str(uuid4()) for _ in range(2000)]
    chosen = [[uid for uid in uids if Traces(Collector().deliver, ratio=0.25).includes(uid)] for _ in range(2)]
    assert chosen[0] == chosen[1]
    assert 400 < len(chosen[0]) < 600
    assert all(Traces(Collector().deliver).includes(uid) for uid in uids)


async def test_spans_are_delivered_together() -> None:
    collector = Collector()
    traces = Traces(collector.deliver)
    traces.add(span(), span())
    traces.add(span())
    await traces.deliver()
    await traces.deliver()
    assert [len(spans) for spans in collector.calls] == [3]


async def test_what_the_collector_does_not_take_is_kept_and_tried_again_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now = 1000.0
    monkeypatch.setattr("control.tracing.time.monotonic", lambda: now)
    collector = Collector(is_up=False)
    traces = Traces(collector.deliver, endpoint="http://collector:4318")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            traces.add(span())
            await traces.deliver()
    assert len(collector.calls) == 1
    assert [(record.__dict__["kept"], record.__dict__["dropped"]) for record in caplog.records] == [(1, 0)]
    collector.is_up, now = True, now + PAUSE_SECONDS
    await traces.deliver()
    assert [len(spans) for spans in collector.calls] == [1, 3]


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_a_collector_that_hangs_delays_nobody_for_long(
    monkeypatch: pytest.MonkeyPatch, *, is_cancelled: bool
) -> None:
    monkeypatch.setattr("control.tracing.LIMIT_SECONDS", 0.1 if not is_cancelled else 60)
    ends, taken = threading.Event(), list[int]()

    def hang(spans: Sequence[Span]) -> bool:
        ends.wait(60)
        taken.append(len(spans))
        return True

    traces = Traces(hang)
    traces.add(span())
    delivery = asyncio.create_task(traces.deliver())
    if is_cancelled:
        await asyncio.sleep(0)
        delivery.cancel()
    await asyncio.wait([delivery])
    started = time.monotonic()
    traces.add(span())
    await traces.deliver()
    assert time.monotonic() - started < 5, "there is a pause"
    ends.set()
    monkeypatch.setattr("control.tracing.PAUSE_SECONDS", 0)
    traces._resumes_at = 0
    await traces.deliver()
    assert taken[-1] == 2, "what was not taken in time is delivered again"


async def test_no_more_spans_are_kept_than_fit(caplog: pytest.LogCaptureFixture) -> None:
    collector = Collector()
    traces = Traces(collector.deliver)
    for _ in range(WAITING_SPANS + 7):
        traces.add(span())
    with caplog.at_level(logging.WARNING):
        await traces.deliver()
    assert len(collector.calls[0]) == WAITING_SPANS
    assert [record.__dict__["dropped"] for record in caplog.records] == [7]


async def test_without_a_collector_nothing_is_kept() -> None:
    traces = Traces(None)
    traces.add(span())
    await traces.deliver()
    assert not traces.includes(UID)
