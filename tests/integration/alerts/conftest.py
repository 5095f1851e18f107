"""Helm, which renders the permissions of shim and worker."""

from tests.integration.chart.conftest import helm, render

__all__ = ["helm", "render"]
