"""Writes `.devcluster/env`: how to reach the cluster, as assignments that a shell and a Makefile
can read."""

import shlex

from .components import TEMPORAL_NAMESPACE, TEMPORAL_UI
from .layout import ADDRESS, PORTS, Layout

POD_TEMPORAL_ADDRESS = "INFERRUN_POD_TEMPORAL_ADDRESS"
"""The Temporal address for Pods, if it differs from TEMPORAL_ADDRESS."""


def env_text(values: dict[str, str]) -> str:
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())


def own_values(layout: Layout) -> dict[str, str]:
    """The values for this tooling's own cluster and Temporal server."""
    return {
        "KUBECONFIG": str(layout.kubeconfig),
        "TEMPORAL_ADDRESS": f"{ADDRESS}:{PORTS.temporal}",
        "TEMPORAL_NAMESPACE": TEMPORAL_NAMESPACE,
        "TEMPORAL_UI_URL": TEMPORAL_UI,
        "INFERRUN_BIN": str(layout.programs),
    }


def write_env_file(layout: Layout, *, values: dict[str, str]) -> None:
    partial = layout.env.with_suffix(".partial")
    partial.write_text(env_text(values))
    partial.replace(layout.env)
