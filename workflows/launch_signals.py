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
        self._ended: OrderedDict[str, str] = OrderedDict()

    def add_started(self, signal: Started) -> None:
        """The container of a Pod of the Job has started."""
        self._started[signal.job_uid] = signal
        _limit(self._started)

    def add_ended(self, signal: Ended) -> None:
        """The launch should be inspected, because of its Pod if the signal names one."""
        self.request_inspection(signal.job_uid, pod_uid=signal.pod_uid)

    def request_inspection(self, job_uid: str, *, pod_uid: str = "") -> None:
        """The launch of the Job should be inspected."""
        self._ended[job_uid] = pod_uid
        _limit(self._ended)

    def take_started(self, job_uid: str) -> Started | None:
        """The latest start of the Job that has not been taken yet."""
        return self._started.pop(job_uid, None)

    def pending_start(self, job_uid: str) -> Started | None:
        """The same, without taking it."""
        return self._started.get(job_uid)

    def take_ended(self, job_uid: str) -> str | None:
        """The UID of the Pod, or an empty string, if the Job should be inspected because of a signal not yet taken."""
        return self._ended.pop(job_uid, None)


def _limit(kept: OrderedDict[str, Started] | OrderedDict[str, str]) -> None:
    while len(kept) > JOBS_LIMIT:
        kept.popitem(last=False)
