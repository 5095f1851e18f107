"""The installation on whose behalf activities act."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Installation:
    """Read once when the worker starts."""

    id: str
    """The installation's id, on every object and workflow that it creates."""

    task_queue: str
    """The task queue of the worker."""

    temporal_namespace: str
    ui_url: str
    """Base URL of the Temporal UI; empty if it is not known."""
