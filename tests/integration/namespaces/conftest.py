"""A control plane of its own, on which the real programs run with exactly the permissions that the chart gives them."""

from tests.integration.chart.conftest import helm, render
from tests.integration.shim.conftest import api, namespace, plane, until

__all__ = ["api", "helm", "namespace", "plane", "render", "until"]
