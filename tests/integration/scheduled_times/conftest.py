"""A shim and a worker that serve one namespace. No config exists, so every run stays in progress
until a test ends it."""

from tests.integration.entry.conftest import served, temporal
from tests.integration.shim.conftest import (
    api,
    far_side,
    namespace,
    schedules,
    start_shim,
    wire,
    workflows,
)

__all__ = [
    "api",
    "far_side",
    "namespace",
    "schedules",
    "served",
    "start_shim",
    "temporal",
    "wire",
    "workflows",
]
