"""The seam between the client and the servers through which a run can be started, followed and cancelled."""

from collections.abc import AsyncGenerator
from typing import Protocol

from inferrun.resources import InferenceRun
from inferrun.submission import Submission


class RunAccess(Protocol):
    """Access to runs through Kubernetes or through Temporal. Raises ClientError."""

    async def start(self, submission: Submission, *, name: str) -> InferenceRun:
        """Create a run of that name, or find the one that the same request created. Raises RequestMismatch."""

    def follow(self, namespace: str, name: str) -> AsyncGenerator[InferenceRun, None]:
        """The run now, and whenever it has changed, until it has ended; the last one is in a terminal phase.

        Raises RunNotFound, also if the run is deleted before it has ended.
        """

    async def cancel(self, namespace: str, name: str) -> None:
        """Request that the run ends; it has not ended yet when this returns."""

    async def close(self) -> None:
        """Close the connections."""
