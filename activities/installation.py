"""The installation on whose behalf activities act."""

from dataclasses import dataclass, field

from activities.signing_key import SigningKey


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

    namespace: str
    """The release's namespace, in which the workers record with which keys they sign."""

    signing_key: SigningKey = field(default_factory=SigningKey, repr=False)
    """The key of this process, which signs what it creates in users' namespaces."""
