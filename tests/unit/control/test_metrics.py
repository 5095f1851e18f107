"""The metrics are exposed under the names by which they are declared and documented."""

import re

import pytest
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from control.metrics import (
    API_REQUESTS,
    LEADER,
    METRICS,
    RUN_WAITING,
    RUNS,
    Metric,
    Metrics,
    verb_and_resource,
)
from tests.unit.docs.pages import DOCS, PAGES

UNITS = (
    "_seconds",
    "_total",
    "_records",
    "_requests",
    "_per_second",
    "_info",
    "_runs",
    "_depth",
    "_leader",
    "_reachable",
)


def scraped(metrics: Metrics) -> list[Sample]:
    text = generate_latest(metrics.registry).decode()  # type: ignore[no-untyped-call]  # the library's
    families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]  # the library's
    return [sample for family in families for sample in family.samples]


@pytest.mark.parametrize("metric", METRICS, ids=lambda one: one.name)
def test_every_metric_is_exposed_as_declared_and_is_on_the_page(metric: Metric) -> None:
    metrics = Metrics()
    metrics.record(metric, 1, *metric.labels)
    name = f"{metric.name}_count" if metric.kind == "histogram" else metric.name
    assert {label: label for label in metric.labels} in [
        one.labels for one in scraped(metrics) if one.name == name
    ]
    assert f"| `{metric.name}` | {metric.kind} |" in (DOCS / "reference" / "metrics.md").read_text()


def test_names_end_with_a_unit_and_labels_name_no_run() -> None:
    assert [
        one.name
        for one in METRICS
        if not one.name.startswith("inferrun_") or not one.name.endswith(UNITS)
    ] == []
    assert {label for one in METRICS for label in one.labels} & {
        "run",
        "name",
        "pod",
        "job",
        "uid",
    } == {"name"}
    assert LEADER.labels == ("name",)  # of the election


def test_the_pages_name_only_metrics_that_exist() -> None:
    known = {one.name for one in METRICS}
    known |= {
        f"{one.name}_{part}"
        for one in METRICS
        if one.buckets
        for part in ("bucket", "count", "sum")
    }
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        named = set(
            re.findall(
                r"\binferrun_(?!runner\b)(?:\w+_)?(?:runs?|records|tokens|schedule|queue|reconcile|api|leader)\w*",
                text,
            )
        )
        assert named <= known, page


def test_a_table_is_read_when_it_is_scraped() -> None:
    metrics = Metrics()
    runs: dict[tuple[str, ...], float] = {("team", "iris", "Pending", "Queued"): 2.0}
    metrics.fill(RUNS, lambda: runs)
    metrics.fill(RUN_WAITING, lambda: {("team", "iris", "Queued"): 7.0})
    runs["team", "iris", "Pending", "Queued"] = 3.0
    found = {
        sample.name: sample.value
        for sample in scraped(metrics)
        if sample.name.startswith("inferrun_run")
    }
    assert found == {"inferrun_runs": 3.0, "inferrun_run_waiting_seconds_total": 7.0}


@pytest.mark.parametrize(
    ("method", "path", "named"),
    [
        ("GET", "/api/v1/namespaces/kube-system", ("get", "namespaces")),
        ("GET", "/api/v1/namespaces/team/pods/one/log", ("get", "pods/log")),
        ("GET", "/api/v1/namespaces/team/pods", ("list", "pods")),
        ("GET", "/apis/batch/v1/jobs", ("watch", "jobs")),
        ("POST", "/apis/batch/v1/namespaces/team/jobs", ("create", "jobs")),
        (
            "PATCH",
            "/apis/ai.krateo.io/v1/namespaces/team/inferenceruns/one/status",
            ("patch", "inferenceruns/status"),
        ),
        ("DELETE", "/apis/batch/v1/namespaces/team/jobs/one", ("delete", "jobs")),
        ("GET", "/version", ("get", "(other)")),
    ],
)
def test_a_request_is_named_as_by_kubernetes(
    method: str, path: str, named: tuple[str, str]
) -> None:
    assert verb_and_resource(method, path, is_watch=named[0] == "watch") == named


def test_no_metric_records_when_its_series_were_created() -> None:
    metrics = Metrics()
    metrics.record(API_REQUESTS, 0.1, "get", "pods", "200")
    assert not [sample for sample in scraped(metrics) if sample.name.endswith("_created")]
