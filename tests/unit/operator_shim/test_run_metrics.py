"""What the metrics of runs say about what the watch has seen."""

import asyncio
import logging
from typing import Any

import pytest
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from control.metrics import METRICS, Metrics
from inferrun.kube.namespaces import ALL
from inferrun.kube.objects import RUNS, Object
from inferrun.reasons import Reason
from operator_shim.run_metrics import CONFIGS_LIMIT, PAIRS_LIMIT, RunMetrics
from operator_shim.run_watch import RunWatch, trim_run
from tests.unit.objects import NOW, at
from tests.unit.operator_shim.collections import Collections
from tests.unit.operator_shim.observer.fakes import until

CREATED = at(60)
SAMPLES_OF_A_PAIR = 100
"""At most, of a config with runs in several states; that of one config whose runs always succeed
are half as many."""


def run_of(
    name: str = "run",
    *,
    namespace: str = "team",
    config: str = "iris",
    status: Object | None = None,
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    **spec: Any,  # Any: JSON
) -> Object:
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": name,
        "creationTimestamp": CREATED,
        "resourceVersion": "1",
    }
    return {
        "metadata": {**metadata, "annotations": annotations or {}, "labels": labels or {}},
        "spec": {"configRef": {"name": config}, **spec},
        "status": status or {},
    }


def waiting(reason: str = "Unschedulable", **status: Any) -> Object:  # Any: JSON
    return {
        "phase": "Pending",
        "reason": reason,
        "contract": "e30=",
        "jobStatus": {"name": "job", "uid": "j"},
        **status,
    }


def running(**status: Any) -> Object:  # Any: JSON
    return waiting(**{"phase": "Running", "reason": "Running", "startTime": at(50), **status})


# Any: JSON
def ended(phase: str = "Succeeded", reason: str = "Succeeded", **status: Any) -> Object:
    return running(phase=phase, reason=reason, completionTime=at(10), **status)


class Stage:
    """A shim's metrics, what it has cached, and its clock."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.leads = True
        self.seconds = 0.0
        self.cached: dict[tuple[str, str], Object] = {}
        self.runs = RunMetrics(
            self.metrics,
            RunWatch(Collections(), namespaces=ALL),
            is_leader=lambda: self.leads,
            now=lambda: NOW,
            clock=lambda: self.seconds,
        )

    def lists(self, run: Object) -> None:
        """The run exists when the shim starts."""
        self._cache(run, trim_run(run))

    def sees(self, run: Object) -> None:
        """The run is created, or has changed."""
        self.runs.on_arrival(self.cached.get(self._key(run)), run)
        self._cache(run, trim_run(run))

    def misses(self, run: Object) -> None:
        """The run was deleted."""
        self._cache(run, None)

    def value(
        self, name: str, *labels: str, namespace: str = "team", config: str = "iris"
    ) -> float:
        """Of the sample with these labels besides namespace and config; -1 if there is none."""
        metric = max(
            (one for one in METRICS if name.startswith(one.name)), key=lambda one: len(one.name)
        )
        wanted = dict(zip(metric.labels, (namespace, config, *labels), strict=True))
        found = self.metrics.registry.get_sample_value(name, wanted)
        return -1 if found is None else found

    def samples(self) -> list[dict[str, str]]:
        """The labels of everything that a scrape returns about runs."""
        text = generate_latest(self.metrics.registry).decode()  # type: ignore[no-untyped-call]  # the library's
        families = text_string_to_metric_families(text)  # type: ignore[no-untyped-call]  # the library's
        return [
            sample.labels
            for family in families
            for sample in family.samples
            if "config" in sample.labels
        ]

    def _key(self, run: Object) -> tuple[str, str]:
        return run["metadata"]["namespace"], run["metadata"]["name"]

    def _cache(self, run: Object, after: Object | None) -> None:
        key = self._key(run)
        self.runs.on_change(key, self.cached.pop(key, None), after)
        if after is not None:
            self.cached[key] = after


@pytest.fixture
def stage() -> Stage:
    return Stage()


def test_runs_are_shown_by_phase_and_reason_until_they_are_deleted(stage: Stage) -> None:
    stage.lists(run_of("old", status=ended()))
    stage.sees(run_of("new"))
    assert stage.value("inferrun_runs", "Succeeded", "Succeeded") == 1
    assert stage.value("inferrun_runs", "(none)", "(none)") == 1
    stage.sees(run_of("new", status=waiting()))
    assert stage.value("inferrun_runs", "(none)", "(none)") == -1
    assert stage.value("inferrun_runs", "Pending", "Unschedulable") == 1
    stage.misses(run_of("new"))
    assert stage.value("inferrun_runs", "Pending", "Unschedulable") == -1


def test_a_reason_of_another_version_is_no_series_of_its_own(stage: Stage) -> None:
    stage.sees(run_of(status=waiting("FromTheFuture")))
    assert stage.value("inferrun_runs", "Pending", Reason.RUNNER_FAILED) == 1


def test_requests_are_counted_as_running_attempts_report_them(stage: Stage) -> None:
    stage.lists(
        run_of(status=running(pace={"requests": 100, "failedRequests": 10, "requestSeconds": 50}))
    )
    for pace in (
        {
            "requests": 130,
            "failedRequests": 15,
            "requestSeconds": 65,
            "sentBytes": 3000,
            "receivedBytes": 700,
        },
        None,
        {"requests": 8, "failedRequests": 2},  # another attempt
        {"requests": 8, "failedRequests": 2},
        {"requests": 9, "failedRequests": 2},
    ):
        stage.sees(run_of(status=running(pace=pace) if pace else waiting()))
    assert stage.value("inferrun_model_requests_total", "succeeded") == 25 + 6 + 1
    assert stage.value("inferrun_model_requests_total", "failed") == 5 + 2
    assert stage.value("inferrun_model_request_seconds_total") == 15
    assert stage.value("inferrun_model_request_bytes_total", "sent") == 3000
    assert stage.value("inferrun_model_request_bytes_total", "received") == 700


def test_tokens_are_counted_while_runs_run_and_only_once(stage: Stage) -> None:
    def tokens(count: int) -> Object:
        return {"promptTokens": 2 * count, "completionTokens": count, "totalTokens": 3 * count}

    stage.lists(run_of(status=running(usage=tokens(10))))
    stage.sees(run_of(status=running(usage=tokens(15))))
    assert stage.value("inferrun_tokens_total", "prompt") == 10
    stage.sees(run_of(status=waiting(usage=tokens(15))))
    # an output whose parts cannot be kept begins anew
    stage.sees(run_of(status=running(usage=tokens(0))))
    for _ in range(2):
        stage.sees(run_of(status=ended(usage=tokens(20))))
    assert stage.value("inferrun_tokens_total", "prompt") == 10 + 40
    assert stage.value("inferrun_tokens_total", "completion") == 5 + 20


def test_an_end_is_counted_when_it_is_seen_and_only_then(stage: Stage) -> None:
    stage.lists(run_of("old", status=ended()))
    stage.lists(run_of(status=running()))
    usage = {"promptTokens": 7, "completionTokens": 5, "totalTokens": 12}
    end = ended(
        "Failed", "OutputFailed", records={"total": 9, "completed": 8, "failed": 1}, usage=usage
    )
    for _ in range(2):
        stage.sees(run_of(status=end))
    stage.misses(run_of(status=end))
    assert stage.value("inferrun_runs_ended_total", "Failed", "OutputFailed") == 1
    assert stage.value("inferrun_runs_ended_total", "Succeeded", "Succeeded") == -1
    assert stage.value("inferrun_run_duration_seconds_count", "Failed") == 1
    assert stage.value("inferrun_run_duration_seconds_sum", "Failed") == 40
    assert stage.value("inferrun_records_total", "completed") == 8
    assert stage.value("inferrun_records_total", "failed") == 1
    assert stage.value("inferrun_tokens_total", "prompt") == 7
    assert stage.value("inferrun_tokens_total", "completion") == 5


def test_the_time_to_the_first_job_is_measured_once(stage: Stage) -> None:
    stage.sees(run_of())
    stage.sees(run_of(status={"phase": "Pending", "reason": "Accepted"}))
    assert stage.value("inferrun_run_time_to_job_seconds_count") == -1
    for job in ("first", "first", "second"):
        stage.sees(run_of(status=waiting(jobStatus={"name": job, "uid": job})))
    stage.sees(run_of(status=running()))
    stage.lists(run_of("of another shim", status=waiting()))
    assert stage.value("inferrun_run_time_to_job_seconds_count") == 1
    assert stage.value("inferrun_run_time_to_job_seconds_sum") == 60


def test_a_waiting_run_adds_a_second_per_second_to_what_it_waits_for(stage: Stage) -> None:
    stage.lists(run_of("long", status=waiting()))
    stage.seconds = 10
    stage.sees(run_of("late", status=waiting()))
    stage.seconds = 15
    assert stage.value("inferrun_run_waiting_seconds_total", "Unschedulable") == 20
    stage.sees(run_of("long", status=waiting("QuotaExceeded")))
    stage.sees(run_of("late", status=running()))
    stage.seconds = 115
    assert stage.value("inferrun_run_waiting_seconds_total", "Unschedulable") == 20
    assert stage.value("inferrun_run_waiting_seconds_total", "QuotaExceeded") == 100


def test_each_attempt_and_each_disruption_is_counted_once(stage: Stage) -> None:
    started = {"attempt": 1, "startTime": at(50)}
    evicted = {**started, "launch": 1, "replaced": True, "podName": "a", "reason": "Disrupted"}
    failed = {**started, "launch": 1, "podName": "b", "reason": "OutOfMemory"}
    lost = {**started, "launch": 2, "podName": "c", "reason": "NodeLost"}
    waited = {"launch": 3, "attempt": 2, "reason": "Queued"}
    done = {**started, "launch": 4, "attempt": 2, "podName": "d", "reason": "Succeeded"}
    stage.sees(run_of())
    stage.sees(run_of(status=waiting(attempts=[evicted])))
    stage.sees(run_of(status=waiting(attempts=[evicted, failed])))
    stage.sees(run_of(status=running(attempts=[evicted, failed, lost])))
    corrected = [{**one, "startTime": at(40)} for one in (failed, lost)]
    stage.sees(run_of(status=ended(attempts=[*corrected, waited, done])))
    for reason in ("OutOfMemory", "Succeeded"):
        assert stage.value("inferrun_run_attempts_total", reason) == 1
    for reason in ("Disrupted", "NodeLost"):
        assert stage.value("inferrun_run_disruptions_total", reason) == 1
        assert stage.value("inferrun_run_attempts_total", reason) == -1
    assert stage.value("inferrun_run_attempts_total", "Queued") == -1


def test_the_progress_of_running_runs_is_added_up(stage: Stage) -> None:
    records = {"total": 10, "completed": 6, "failed": 1}
    pace = {"recordsPerSecond": 3, "concurrency": 4}
    stage.lists(run_of("one", status=running(records=records, pace=pace)))
    stage.lists(run_of("two", status=running(records={"completed": 2}, pace=pace)))
    stage.lists(run_of("three", status=waiting(records=records)))
    assert stage.value("inferrun_running_records_per_second") == 6
    assert stage.value("inferrun_running_concurrent_requests") == 8
    assert [
        stage.value("inferrun_running_records", kind)
        for kind in ("completed", "failed", "remaining")
    ] == [8, 1, 3]
    stage.sees(run_of("one", status=ended(records=records)))
    assert stage.value("inferrun_running_records_per_second") == 3


def test_scheduled_times_are_counted_by_what_became_of_them(stage: Stage) -> None:
    def nightly(**counts: int) -> Object:
        times = {"until": at(0), "started": 0, **counts}
        return run_of(
            schedule="@daily", status={"phase": "Scheduled", "reason": "Scheduled", "times": times}
        )

    stage.lists(nightly(started=100))
    stage.sees(nightly(started=101))
    stage.sees(nightly(started=101, missed=2))
    stage.sees(nightly(started=102, missed=1))  # one that was missed turned out to exist
    assert stage.value("inferrun_schedule_times_total", "started") == 2
    assert stage.value("inferrun_schedule_times_total", "missed") == 2
    assert stage.value("inferrun_schedule_times_total", "skipped") == -1


def test_the_lag_of_a_scheduled_run_is_measured_when_it_is_created(stage: Stage) -> None:
    due = {"inferrun.dev/scheduled-time": at(63)}
    stage.lists(run_of("known", annotations=due))
    stage.sees(run_of("new", annotations=due))
    stage.sees(run_of("new", annotations=due, status=waiting()))
    stage.sees(run_of("of a back-fill", annotations=due, labels={"inferrun.dev/backfill-uid": "b"}))
    assert stage.value("inferrun_schedule_lag_seconds_count") == 1
    assert stage.value("inferrun_schedule_lag_seconds_sum") == 3


def test_a_shim_that_does_not_lead_shows_nothing_and_counts_nothing(stage: Stage) -> None:
    stage.leads = False
    stage.lists(run_of("waits", status=waiting()))
    stage.lists(run_of(status=running()))
    stage.sees(run_of(status=ended()))
    stage.seconds = 100
    assert stage.samples() == []
    stage.leads = True
    stage.seconds = 107
    assert stage.value("inferrun_runs", "Succeeded", "Succeeded") == 1
    assert stage.value("inferrun_runs_ended_total", "Succeeded", "Succeeded") == -1
    assert stage.value("inferrun_run_waiting_seconds_total", "Unschedulable") == 7


def test_the_number_of_series_does_not_grow_with_runs_configs_and_namespaces(stage: Stage) -> None:
    def live(namespace: str, config: str) -> None:
        for name in (f"{config}-1", f"{config}-2"):
            for status in (None, waiting(), running(pace={"recordsPerSecond": 1}), ended()):
                stage.sees(run_of(name, namespace=namespace, config=config, status=status))
        stage.sees(run_of(f"{config}-3", namespace=namespace, config=config, status=running()))

    for number in range(1000):
        live("crowded", f"config-{number}")
    for number in range(1000):
        live(f"team-{number}", "iris")
    samples = stage.samples()
    pairs = {(labels["namespace"], labels["config"]) for labels in samples}
    assert len(pairs) == PAIRS_LIMIT + 1
    assert len(samples) <= len(pairs) * SAMPLES_OF_A_PAIR
    assert (
        len({config for namespace, config in pairs if namespace == "crowded"}) == CONFIGS_LIMIT + 1
    )
    succeeded = ("Succeeded", "Succeeded")
    assert stage.value("inferrun_runs_ended_total", *succeeded, namespace="team-0") == 2
    others = 1000 - CONFIGS_LIMIT
    assert (
        stage.value("inferrun_runs_ended_total", *succeeded, namespace="crowded", config="(other)")
        == 2 * others
    )
    beyond = 1000 - (PAIRS_LIMIT - CONFIGS_LIMIT - 1)
    assert (
        stage.value("inferrun_runs_ended_total", *succeeded, namespace="(other)", config="(other)")
        == 2 * beyond
    )
    assert (
        stage.value("inferrun_runs", "Running", "Running", namespace="(other)", config="(other)")
        == beyond
    )


async def test_the_watch_shows_whole_runs_once_they_were_listed_and_caches_them_whatever_happens(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = Collections(inferenceruns=[run_of("old", status=running())])
    watch = RunWatch(cluster, namespaces=ALL)
    seen: list[tuple[Object | None, Object]] = []

    def inspect(before: Object | None, after: Object) -> None:
        seen.append((before, after))
        raise ValueError("a run that cannot be measured")

    watch.inspect(inspect)
    task = asyncio.create_task(watch.run())
    await until(lambda: cluster.watched)
    assert seen == []
    usage = {"totalTokens": 12}
    for name in ("old", "new"):
        run = run_of(name, status=ended(usage=usage))
        run["metadata"]["resourceVersion"] = "2"
        cluster.change(RUNS, run)
    with caplog.at_level(logging.CRITICAL):
        await until(lambda: watch.get("team", "new"))
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert [before and before["status"]["phase"] for before, _ in seen] == ["Running", None]
    assert [after["status"]["usage"] for _, after in seen] == [usage, usage]
    cached = watch.get("team", "old")
    assert cached is not None
    assert cached["status"]["phase"] == "Succeeded"
