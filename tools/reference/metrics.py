"""Rows for the metrics that shim and worker serve."""

from collections.abc import Iterator

from control.metrics import METRICS
from tools.reference.markdown import Row, sentence


def rows(*, of_runs: bool) -> Iterator[Row]:
    """One row for each metric of runs, which have the labels namespace and config, or for each of
    the others."""
    for one in METRICS:
        if ("namespace" in one.labels) is of_runs:
            labels = " ".join(
                f"`{label}`" for label in one.labels if label not in ("namespace", "config")
            )
            yield f"`{one.name}`", one.kind, labels, sentence(one.meaning), one.question
