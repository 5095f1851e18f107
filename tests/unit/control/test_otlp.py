"""Spans that OpenTelemetry's exporter cannot handle."""

import logging
from datetime import UTC, datetime

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

from control.otlp import Exporter
from control.tracing import Span
from inferrun.run_ref import RunRef


def test_an_error_of_the_exporter_drops_the_spans_and_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("not expected")

    monkeypatch.setattr(OTLPSpanExporter, "export", fail)
    now = datetime.now(UTC)
    span = Span(run=RunRef(namespace="team", name="run", uid="uid"), name="LaunchJob", start=now, end=now)
    with caplog.at_level(logging.ERROR):
        assert Exporter(program="worker").deliver([span])
    assert "spans cannot be sent" in caplog.text
