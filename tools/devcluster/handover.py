"""Writes what others attach with: `.devcluster/env`, assignments that a shell and a Makefile can read."""

import shlex

from .layout import ADDRESS, PORTS, Layout
from .parts import TEMPORAL_NAMESPACE, TEMPORAL_UI


def env_text(values: dict[str, str]) -> str:
    return "".join(f"{name}={shlex.quote(value)}\n" for name, value in values.items())


def own_values(layout: Layout) -> dict[str, str]:
    return {
        "KUBECONFIG": str(layout.kubeconfig),
        "TEMPORAL_ADDRESS": f"{ADDRESS}:{PORTS.temporal}",
        "TEMPORAL_NAMESPACE": TEMPORAL_NAMESPACE,
        "TEMPORAL_UI_URL": TEMPORAL_UI,
        "INFERRUN_BIN": str(layout.programs),
    }


def write_handover(layout: Layout, *, values: dict[str, str] | None = None) -> None:
    partial = layout.env.with_suffix(".partial")
    partial.write_text(env_text(values or own_values(layout)))
    partial.replace(layout.env)
