"""A control plane and a Temporal server of their own."""

from tests.integration.chart.conftest import helm, render
from tests.integration.shim.conftest import api, far_side, namespace, temporal, wire, workflows

__all__ = ["api", "far_side", "helm", "namespace", "render", "temporal", "wire", "workflows"]
