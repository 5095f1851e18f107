"""What a Prometheus reads from the real programs while runs are created, wait, run and end."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as parse_plain_text

from campaigns.benchmarks.control_plane import ControlPlane
from campaigns.benchmarks.processes import free_port
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIGS, RUNS
from inferrun.timestamps import rfc3339, utc_now
from tests.integration.chart.conftest import Render
from tests.integration.namespaces.installation import Release, install, running
from tests.integration.shim.runs import create, write_status
from tests.integration.waiting import until
from tests.unit.docs.pages import DOCS

SECONDS = 60
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"

Samples = dict[str, dict[tuple[str, ...], float]]
"""The value of each sample by its name and the values of its labels, in the order of the labels'
names; without buckets."""


@dataclass(frozen=True)
class MeasuredRelease(Release):
    """One whose programs serve the metrics of the Temporal SDK, too."""

    temporal_ports: Mapping[str, int] = field(default_factory=dict)

    def environment(self, component: str, *, port: int) -> dict[str, str]:
        own = {"TEMPORAL_METRICS_PORT": str(self.temporal_ports[component])}
        return super().environment(component, port=port) | own


def scrape(port: int) -> Samples:
    answer = httpx.get(
        f"http://127.0.0.1:{port}/metrics", headers={"Accept": OPEN_METRICS}, timeout=10
    )
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    found: Samples = {}
    for family in text_string_to_metric_families(answer.text):  # type: ignore[no-untyped-call]  # the library's
        for sample in family.samples:
            if "le" not in sample.labels:
                found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found


def scrape_temporal(port: int) -> set[str]:
    """The names of the metrics that the Temporal SDK serves."""
    families = parse_plain_text(httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=10).text)
    return {f"{family.name}{'_total' if family.type == 'counter' else ''}" for family in families}


@pytest.fixture
async def release(
    api: KubeClient, plane: ControlPlane, namespace: str, render: Render, tmp_path: Path
) -> MeasuredRelease:
    """One that serves the namespace, which has the config `iris`."""
    spec = {"image": "absent:1", "storage": {"input": {"own": {}}, "output": {"own": {}}}}
    config = {
        "apiVersion": wellknown.API_VERSION,
        "kind": wellknown.CONFIG_KIND,
        "metadata": {"name": "iris"},
    }
    await api.create(CONFIGS, namespace, {**config, "spec": spec})
    installed = await install(
        api, plane, render, namespace=namespace, watched=(namespace,), folder=tmp_path
    )
    return MeasuredRelease(
        **vars(installed), temporal_ports={"shim": free_port(), "worker": free_port()}
    )


async def test_a_scrape_says_what_becomes_of_runs_and_a_restart_counts_nothing_twice(
    api: KubeClient, namespace: str, release: MeasuredRelease
) -> None:
    async def sees(port: int, name: str, *labels: str, least: float = 1) -> Samples:
        """What a scrape finds as soon as this sample has the value."""
        seen: Samples = {}

        async def look() -> float:
            seen.clear()
            seen.update(await asyncio.to_thread(scrape, port))
            return seen.get(name, {}).get(labels, -1)

        await until(look, lambda found: found >= least, seconds=SECONDS)
        return seen

    ending = ("iris", namespace, "Failed", "Cancelled")
    missing = ("missing", namespace, "Pending", "ConfigNotFound")
    async with running(release) as probes:
        shim = probes["shim"]
        await sees(shim, "inferrun_leader", "shim")
        due = rfc3339(utc_now() - timedelta(seconds=1000))
        await create(api, namespace, "ends", annotations={wellknown.ANNOTATION_SCHEDULED_TIME: due})
        goes_on = await create(api, namespace, "goes-on")
        await create(api, namespace, "waits", configRef={"name": "missing"})
        await sees(shim, "inferrun_run_time_to_job_seconds_count", "iris", namespace, least=2)
        await sees(shim, "inferrun_runs", *missing)
        waited = ("missing", namespace, "ConfigNotFound")
        await sees(shim, "inferrun_run_waiting_seconds_total", *waited, least=0.1)
        requests = {
            "requests": 6,
            "failedRequests": 2,
            "requestSeconds": 9,
            "sentBytes": 800,
            "receivedBytes": 70,
        }
        pace = {"recordsPerSecond": 3, "concurrency": 4, "batchRecords": 1, **requests}
        usage = {"promptTokens": 5, "completionTokens": 3, "totalTokens": 8}
        records = {"total": 10, "completed": 6, "failed": 1}
        await write_status(
            api, goes_on, phase="Running", reason="Running", pace=pace, records=records, usage=usage
        )
        cancel = {"metadata": {"annotations": {wellknown.ANNOTATION_CANCEL_REQUESTED: "true"}}}
        await api.patch(RUNS, namespace, "ends", cancel)
        seen = await sees(shim, "inferrun_runs_ended_total", *ending)
        worker = await asyncio.to_thread(scrape, probes["worker"])
        sdk = set().union(
            *[
                await asyncio.to_thread(scrape_temporal, one)
                for one in release.temporal_ports.values()
            ]
        )

    assert seen["inferrun_runs"] == {
        missing: 1,
        ending: 1,
        ("iris", namespace, "Running", "Running"): 1,
    }
    assert seen["inferrun_running_records_per_second"] == {("iris", namespace): 3}
    assert seen["inferrun_model_requests_total"] == {
        ("iris", namespace, "succeeded"): 4,
        ("iris", namespace, "failed"): 2,
    }
    assert seen["inferrun_model_request_seconds_total"] == {("iris", namespace): 9}
    assert seen["inferrun_model_request_bytes_total"] == {
        ("iris", "sent", namespace): 800,
        ("iris", "received", namespace): 70,
    }
    assert seen["inferrun_tokens_total"] == {
        ("iris", namespace, "prompt"): 5,
        ("iris", namespace, "completion"): 3,
    }
    assert seen["inferrun_running_records"]["iris", namespace, "remaining"] == 3
    assert seen["inferrun_run_time_to_job_seconds_count"] == {("iris", namespace): 2}
    assert seen["inferrun_run_time_to_job_seconds_sum"]["iris", namespace] <= 2 * SECONDS
    assert seen["inferrun_run_duration_seconds_count"] == {("iris", namespace, "Failed"): 1}
    assert seen["inferrun_schedule_lag_seconds_count"] == {("iris", namespace): 1}
    assert 1000 <= seen["inferrun_schedule_lag_seconds_sum"]["iris", namespace] <= 1000 + SECONDS
    assert seen["inferrun_queue_depth"].keys() >= {("executions",), ("starts",), ("plans",)}
    assert seen["inferrun_reconcile_duration_seconds_count"]["success", "starts"] >= 3
    assert seen["inferrun_api_request_duration_seconds_count"]["200", "inferenceruns", "watch"] >= 1
    assert worker["inferrun_api_request_duration_seconds_count"]["201", "jobs", "create"] == 2
    assert "inferrun_leader" not in worker
    assert seen["inferrun_temporal_reachable"] == {("shim",): 1}
    assert worker["inferrun_temporal_reachable"] == {("worker",): 1}
    for samples in (seen, worker):
        assert samples["inferrun_build_info"] == {(version("inferrun"),): 1}
        assert samples["process_resident_memory_bytes"][()] > 0
    documented = set(
        re.findall(r"`(temporal_\w+)`", (DOCS / "reference" / "metrics.md").read_text())
    )
    assert documented
    assert documented <= sdk

    async with running(release) as probes:
        seen = await sees(probes["shim"], "inferrun_runs", *ending)
    assert seen["inferrun_runs"].keys() == {
        missing,
        ending,
        ("iris", namespace, "Running", "Running"),
    }
    once = (
        "runs_ended_total",
        "run_time_to_job_seconds_count",
        "run_duration_seconds_count",
        "schedule_lag_seconds_count",
    )
    assert {f"inferrun_{name}" for name in once}.isdisjoint(seen)
