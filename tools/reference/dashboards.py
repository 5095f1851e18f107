"""The dashboards of the chart, as JSON for Grafana: one for the platform, one for the owner of a
namespace.

The title of a panel is the question that it answers.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_FOLDER: Final = Path("deploy", "helm", "inferrun", "dashboards")
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 3

Json = dict[str, Any]  # Any: Grafana's


@dataclass(frozen=True)
class Panel:
    """One query, with a series for each value of its labels; `kind` is Grafana's type of panel."""

    title: str
    query: str
    legend: str = ""
    unit: str = "short"
    kind: str = "timeseries"


def happened(metric: str, matched: str, *, by: str) -> str:
    """How often something has happened. `increase` alone would miss the first time, with which the
    counter appears."""
    series = f"{metric}{{{matched}}}"
    new = f"{series} unless {series} offset $__rate_interval"
    return f"sum by ({by}) ({new} or increase({series}[$__rate_interval])) > 0"


def quantile(metric: str, matched: str, *, by: str = "", q: float = 0.95) -> str:
    """A quantile of a histogram."""
    labels = f"{by}, le" if by else "le"
    return f"histogram_quantile({q}, sum by ({labels}) (rate({metric}_bucket{{{matched}}}[$__rate_interval])))"


def share(metric: str, part: str, matched: str, *, by: str) -> str:
    """The share of a counter's increase that has the labels `part`."""
    whole = f"sum by ({by}) (rate({metric}{{{matched}}}[$__rate_interval]))"
    return f"sum by ({by}) (rate({metric}{{{part}, {matched}}}[$__rate_interval])) / {whole}"


_API, _TEMPORAL = "inferrun_api_request_duration_seconds", "temporal_request_failure_total"
_STEP = "temporal_local_activity_execution_latency_seconds"
_TASK = "temporal_workflow_task_schedule_to_start_latency_seconds"
_SLOTS = "temporal_worker_task_slots_available"
_NOT_CANCELLED = 'phase="Failed", reason!~"Cancelled|RunDeleted"'
_NO_RUN = 'outcome=~"missed|rejected|skipped"'

PLATFORM: Final = (
    Panel(
        "How many shims lead? It should be one", 'sum(inferrun_leader{name="shim"})', kind="stat"
    ),
    Panel(
        "How many workers execute workflows?",
        f'count({_SLOTS}{{worker_type="WorkflowWorker"}})',
        kind="stat",
    ),
    Panel(
        "Do shim and worker reach Temporal?",
        "min by (program) (inferrun_temporal_reachable)",
        "{{program}}",
        kind="stat",
    ),
    Panel(
        "Which versions run?",
        "count by (version) (inferrun_build_info)",
        "{{version}}",
        kind="stat",
    ),
    Panel(
        "Which alerts fire?",
        'count by (alertname, alertstate) (ALERTS{alertname=~"Inferrun.*"})',
        "{{alertname}} {{alertstate}}",
    ),
    Panel("How many runs are there?", "sum by (phase) (inferrun_runs)", "{{phase}}"),
    Panel(
        "What do runs wait for?",
        'sum by (reason) (inferrun_runs{phase=~"Pending|\\\\(none\\\\)"})',
        "{{reason}}",
    ),
    Panel(
        "Why do runs fail?",
        happened("inferrun_runs_ended_total", _NOT_CANCELLED, by="reason"),
        "{{reason}}",
    ),
    Panel(
        "Which namespaces are busiest?",
        'topk(10, sum by (namespace) (inferrun_runs{phase=~"Pending|Running"}))',
        "{{namespace}}",
    ),
    Panel(
        "How long does it take until a run is launched (95 of 100)?",
        quantile("inferrun_run_time_to_job_seconds", ""),
        unit="s",
    ),
    Panel(
        "Which scheduled times got no run?",
        happened("inferrun_schedule_times_total", _NO_RUN, by="outcome"),
        "{{outcome}}",
    ),
    Panel(
        "Does the shim keep up? Objects that are due",
        "max by (queue) (inferrun_queue_depth)",
        "{{queue}}",
    ),
    Panel(
        "Which reconciles fail?",
        share("inferrun_reconcile_duration_seconds_count", 'outcome="error"', "", by="queue"),
        "{{queue}}",
        "percentunit",
    ),
    Panel(
        "How does the API server answer?",
        f"sum by (code) (rate({_API}_count[$__rate_interval]))",
        "{{code}}",
        "reqps",
    ),
    Panel(
        "How slow is the API server (95 of 100)?",
        quantile(_API, 'verb!="watch"', by="verb"),
        "{{verb}}",
        "s",
    ),
    Panel(
        "Which requests does Temporal reject or not answer?",
        f"sum by (operation, status_code) (rate({_TEMPORAL}[$__rate_interval]))",
        "{{operation}} {{status_code}}",
        "reqps",
    ),
    Panel(
        "How long do workflow tasks wait for a worker (95 of 100)?",
        quantile(_TASK, "", by="task_queue"),
        "{{task_queue}}",
        "s",
    ),
    Panel(
        "Which task queues have no slots left?",
        f"min by (task_queue, worker_type) ({_SLOTS})",
        "{{task_queue}} {{worker_type}}",
    ),
    Panel(
        "Which step of runs is slow (95 of 100)?",
        quantile(_STEP, "", by="activity_type"),
        "{{activity_type}}",
        "s",
    ),
    Panel(
        "How much memory do the processes use?",
        "process_resident_memory_bytes",
        "{{pod}} {{instance}}",
        "bytes",
    ),
    Panel(
        "How many cores do they use?",
        "rate(process_cpu_seconds_total[$__rate_interval])",
        "{{pod}} {{instance}}",
    ),
)

_OF = 'namespace="$namespace", config=~"$config"'
_SECONDS = f"rate(inferrun_model_request_seconds_total{{{_OF}}}[$__rate_interval])"

NAMESPACE: Final = (
    Panel(
        "How many runs are there?",
        f"sum by (phase) (inferrun_runs{{{_OF}}})",
        "{{phase}}",
        kind="stat",
    ),
    Panel(
        "What do runs wait for now?",
        f'sum by (config, reason) (inferrun_runs{{phase=~"Pending|\\\\(none\\\\)", {_OF}}})',
        "{{config}}: {{reason}}",
    ),
    Panel(
        "Why do runs fail?",
        happened("inferrun_runs_ended_total", f"{_NOT_CANCELLED}, {_OF}", by="config, reason"),
        "{{config}}: {{reason}}",
    ),
    Panel(
        "What do runs lose their time with? Runs that wait, on average",
        f"sum by (reason) (rate(inferrun_run_waiting_seconds_total{{{_OF}}}[$__rate_interval]))",
        "{{reason}}",
    ),
    Panel(
        "Why is work repeated?",
        happened(
            "inferrun_run_attempts_total", f'reason!~".*Succeeded", {_OF}', by="config, reason"
        ),
        "{{config}}: {{reason}}",
    ),
    Panel(
        "How much does the cluster disturb runs?",
        happened("inferrun_run_disruptions_total", _OF, by="config, reason"),
        "{{config}}: {{reason}}",
    ),
    Panel(
        "How long does it take until a run is launched (95 of 100)?",
        quantile("inferrun_run_time_to_job_seconds", _OF, by="config"),
        "{{config}}",
        "s",
    ),
    Panel(
        "How long do runs take (95 of 100)?",
        quantile("inferrun_run_duration_seconds", _OF, by="config"),
        "{{config}}",
        "s",
    ),
    Panel(
        "How far are the runs in progress? Records",
        f"sum by (outcome) (inferrun_running_records{{{_OF}}})",
        "{{outcome}}",
    ),
    Panel(
        "How fast are they? Records per second",
        f"sum by (config) (inferrun_running_records_per_second{{{_OF}}})",
        "{{config}}",
    ),
    Panel(
        "How many requests may be in flight?",
        f"sum by (config) (inferrun_running_concurrent_requests{{{_OF}}})",
        "{{config}}",
    ),
    Panel(
        "How many requests are in flight, on average?",
        f"sum by (config) ({_SECONDS})",
        "{{config}}",
    ),
    Panel(
        "How long does the model server take for a request, on average?",
        f"sum by (config) ({_SECONDS}) / sum by (config) (rate(inferrun_model_requests_total{{{_OF}}}[$__rate_interval]))",
        "{{config}}",
        "s",
    ),
    Panel(
        "How much data goes to the model server and comes back?",
        f"sum by (config, direction) (rate(inferrun_model_request_bytes_total{{{_OF}}}[$__rate_interval]))",
        "{{config}}: {{direction}}",
        "Bps",
    ),
    Panel(
        "How many requests to the model server fail?",
        happened("inferrun_model_requests_total", _OF, by="config, outcome"),
        "{{config}}: {{outcome}}",
    ),
    Panel(
        "How many records are done?",
        happened("inferrun_records_total", _OF, by="config, outcome"),
        "{{config}}: {{outcome}}",
    ),
    Panel(
        "How many tokens are used?",
        happened("inferrun_tokens_total", _OF, by="config, type"),
        "{{config}}: {{type}}",
    ),
    Panel(
        "Do schedules start their runs?",
        happened("inferrun_schedule_times_total", _OF, by="config, outcome"),
        "{{config}}: {{outcome}}",
    ),
    Panel(
        "How late are scheduled runs created (95 of 100)?",
        quantile("inferrun_schedule_lag_seconds", _OF, by="config"),
        "{{config}}",
        "s",
    ),
)


def stale(root: Path) -> dict[Path, str]:
    """The files that differ from the panels above, each with its new text."""
    variables = [
        {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    ]
    owner = [
        *variables,
        _variable("namespace", "inferrun_runs"),
        _variable("config", 'inferrun_runs{namespace="$namespace"}', is_list=True),
    ]
    files = {
        "inferrun-platform": _dashboard(
            "inferrun-platform", "inferrun: the platform", PLATFORM, variables
        ),
        "inferrun-namespace": _dashboard(
            "inferrun-namespace", "inferrun: runs of a namespace", NAMESPACE, owner
        ),
    }
    texts = {root / _FOLDER / f"{name}.json": text for name, text in files.items()}
    return {
        path: text
        for path, text in texts.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    }


def _variable(name: str, metric: str, *, is_list: bool = False) -> Json:
    query = f"label_values({metric}, {name})"
    every = {
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }
    common = {"name": name, "type": "query", "datasource": _SOURCE, "refresh": 2, "sort": 1}
    return {**common, "query": {"query": query, "refId": name}, **(every if is_list else {})}


def _dashboard(uid: str, title: str, panels: tuple[Panel, ...], variables: list[Json]) -> str:
    """One line for each panel, so that a change is easy to review."""
    head = {
        "uid": uid,
        "title": title,
        "tags": ["inferrun"],
        "schemaVersion": 39,
        "refresh": "30s",
        "editable": True,
    }
    head |= {"time": {"from": "now-6h", "to": "now"}, "templating": {"list": variables}}
    lines = ",\n".join(json.dumps(one) for one in _placed(panels))
    return json.dumps(head)[:-1] + f',\n"panels": [\n{lines}\n]}}\n'


def _placed(panels: tuple[Panel, ...]) -> Iterator[Json]:
    for index, panel in enumerate(panels):
        row, column = divmod(index, _COLUMNS)
        target = {
            "refId": "A",
            "datasource": _SOURCE,
            "expr": panel.query,
            "legendFormat": panel.legend or "__auto",
        }
        yield {
            "id": index + 1,
            "type": panel.kind,
            "title": panel.title,
            "datasource": _SOURCE,
            "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
            "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
            "targets": [target],
        }
