"""The installation on whose behalf activities act."""

import secrets
from dataclasses import dataclass, field


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

    signing_key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    """Signs what its workers write to users' namespaces; without a common key, a worker recognises only what it wrote itself."""
