"""Every generated part by the name that a page uses for it."""

from deploy.crds.definitions import inference_config, inference_run
from deploy.crds.schema import structural
from inferrun.stores import STORES
from tools.reference import (
    chart,
    commands,
    exit_codes,
    exports,
    fields,
    labels,
    metrics,
    permissions,
    settings,
)
from tools.reference.markdown import table

FIELDS = ("field", "type", "meaning")
DEFAULTS = ("default", "meaning")
METRICS = ("metric", "type", "labels", "meaning", "question that it answers")
PERMISSIONS = ("namespace", "resources", "resource names", "verbs")


def parts() -> dict[str, str]:
    """The parts as Markdown."""
    return {
        "config-spec": table(FIELDS, fields.rows(inference_config(), "spec")),
        "config-status": table(FIELDS, fields.rows(inference_config(), "status")),
        "run-spec": table(FIELDS, fields.rows(inference_run(), "spec")),
        "run-status": table(FIELDS, fields.rows(inference_run(), "status")),
        "exit-codes": table(("code", "meaning", "reason"), exit_codes.rows()),
        "chart-values": table(
            ("value", *DEFAULTS), chart.rows(chart.VALUES.read_text(encoding="utf-8"))
        ),
        "operator-settings": table(("key", *DEFAULTS), settings.operator_rows()),
        "runner-settings": table(("variable", *DEFAULTS), settings.runner_rows()),
        "environment": table(("variable", "meaning"), settings.environment_rows()),
        "labels": table(("label", "meaning"), labels.rows("LABEL_")),
        "annotations": table(("annotation", "meaning"), labels.rows("ANNOTATION_")),
        "run-metrics": table(METRICS, metrics.rows(of_runs=True)),
        "process-metrics": table(METRICS, metrics.rows(of_runs=False)),
        "commands": commands.section(),
        "command-exits": table(("code", "meaning"), commands.exit_rows()),
        **{
            f"store-{label}": table(FIELDS, fields.members(structural(store)))
            for label, store in STORES.items()
            if not store.is_in_schema
        },
        **{
            f"permissions-{account}-{mode}": table(PERMISSIONS, permissions.rows(account, mode))
            for account in ("shim", "worker")
            for mode in ("all-namespaces", "two-namespaces")
        },
        "exports": table(("name", "meaning"), exports.rows("inferrun")),
        "plugin-exports": table(("name", "meaning"), exports.rows("inferrun.plugins")),
        "results-exports": table(("name", "meaning"), exports.rows("inferrun.results")),
        "results-methods": table(
            ("method", "meaning"), exports.methods("inferrun.results", "PredictedRows")
        ),
        "client-exports": table(("name", "meaning"), exports.rows("inferrun.client")),
        "client-methods": table(
            ("method", "meaning"), exports.methods("inferrun.client", "AsyncClient")
        ),
    }
