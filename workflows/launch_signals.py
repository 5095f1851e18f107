"""Keeps the signals about launches until the workflow deals with them. Pure.

A signal may arrive before the workflow knows the Job that it is about, more than once, or after the launch is over.
"""

from collections import OrderedDict

from workflows.signals import Ended, Started

JOBS_LIMIT = 8
"""Jobs whose signals are kept; anybody with access to Temporal can send signals about Jobs that do not exist."""


class LaunchSignals:
    """At most one signal of each kind per Job: the latest start, and whether there is something to inspect."""

    def __init__(self) -> None:
        self._started: OrderedDict[str, Started] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def add_started(self, signal: Started) -> None:
        """The container of a Pod of the Job has started."""
        self._started[signal.job_uid] = signal
        _limit(self._started)

    def add_ended(self, signal: Ended) -> None:
        """The launch should be inspected."""
        self._ended[signal.job_uid] = None
        _limit(self._ended)

    def take_started(self, job_uid: str) -> Started | None:
        """The latest start of the Job that has not been taken yet."""
        return self._started.pop(job_uid, None)

    def take_ended(self, job_uid: str) -> bool:
        """Whether the Job should be inspected because of a signal that has not been taken yet."""
        return self._ended.pop(job_uid, False) is None


def _limit(kept: OrderedDict[str, Started] | OrderedDict[str, None]) -> None:
    while len(kept) > JOBS_LIMIT:
        kept.popitem(last=False)
