"""Shim and worker as real programs on a control plane of their own."""

from tests.integration.chart.conftest import helm, render
from tests.integration.shim.conftest import api, namespace

__all__ = ["api", "helm", "namespace", "render"]
