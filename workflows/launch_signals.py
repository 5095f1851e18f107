"""Keeps the signals about launches until the workflow deals with them. Pure.

A signal may arrive before the workflow knows the Job that it is about, more than once, or after the launch is over.
"""

from collections import OrderedDict
from dataclasses import dataclass

from workflows.signals import Ended, Started

JOBS_LIMIT = 8
"""Jobs whose signals are kept; anybody with access to Temporal can send signals about Jobs that do not exist."""


@dataclass
class _Signalled:
    started: Started | None = None
    ended_pod: str | None = None
    ends: str = ""


class LaunchSignals:
    """Of each Job the latest start, whether there is something to inspect, and how its Pods were seen to end."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, _Signalled] = OrderedDict()

    def add_started(self, signal: Started) -> None:
        """The container of a Pod of the Job has started."""
        self._of(signal.job_uid).started = signal

    def add_ended(self, signal: Ended) -> None:
        """The launch should be inspected, because of its Pod if the signal names one."""
        job = self._of(signal.job_uid)
        job.ended_pod, job.ends = signal.pod_uid, signal.ends or job.ends

    def request_inspection(self, job_uid: str) -> None:
        """The launch of the Job should be inspected."""
        self._of(job_uid).ended_pod = ""

    def pending_start(self, job_uid: str) -> Started | None:
        """The latest start of the Job that has not been taken yet."""
        return self._of(job_uid).started

    def take_started(self, job_uid: str) -> Started | None:
        """The same, once."""
        job = self._of(job_uid)
        started, job.started = job.started, None
        return started

    def take_ended(self, job_uid: str) -> str | None:
        """The UID of the Pod, or an empty string, if the Job should be inspected because of a signal not yet taken."""
        job = self._of(job_uid)
        ended_pod, job.ended_pod = job.ended_pod, None
        return ended_pod

    def ends_of(self, job_uid: str) -> str:
        """What the latest signal says about the ends of the Job's Pods."""
        return self._of(job_uid).ends

    def latest_end(self, job_uid: str, *, launch: int) -> Ended | None:
        """The latest signal as the next execution of the workflow needs it: without the Pod if that has been taken."""
        job = self._of(job_uid)
        if not job.ends and job.ended_pod is None:
            return None
        return Ended(job_uid=job_uid, launch=launch, pod_uid=job.ended_pod or "", ends=job.ends)

    def _of(self, job_uid: str) -> _Signalled:
        signalled = self._jobs.setdefault(job_uid, _Signalled())
        self._jobs.move_to_end(job_uid)
        while len(self._jobs) > JOBS_LIMIT:
            self._jobs.popitem(last=False)
        return signalled
