"""Keeps the signals about launches until the workflow deals with them. Pure.

A signal may arrive before the workflow knows the Job that it is about, more than once, or after the launch is over.
"""

from collections import OrderedDict
from dataclasses import dataclass

from workflows.signals import Ended, Started

JOBS_LIMIT = 8
"""Jobs whose signals are kept; anybody with access to Temporal can send signals about Jobs that do not exist."""


@dataclass
class JobSignals:
    """The latest start of a Job, the Pod because of which it should be inspected, and how its Pods were seen to end."""

    started: Started | None = None
    ended_pod: str | None = None
    ends: str = ""


class LaunchSignals:
    """The signals about each Job."""

    def __init__(self) -> None:
        self._jobs: OrderedDict[str, JobSignals] = OrderedDict()

    def add_ended(self, signal: Ended) -> None:
        """The launch should be inspected, because of its Pod if the signal names one."""
        job = self.of(signal.job_uid)
        job.ended_pod, job.ends = signal.pod_uid, signal.ends or job.ends

    def take_started(self, job_uid: str) -> Started | None:
        """The latest start of the Job, once."""
        job = self.of(job_uid)
        started, job.started = job.started, None
        return started

    def take_ended(self, job_uid: str) -> str | None:
        """The UID of the Pod, or an empty string, if the Job should be inspected because of a signal not yet taken."""
        job = self.of(job_uid)
        ended_pod, job.ended_pod = job.ended_pod, None
        return ended_pod

    def latest_end(self, job_uid: str, *, launch: int) -> Ended | None:
        """The latest signal as the next execution of the workflow needs it: without the Pod if that has been taken."""
        job = self.of(job_uid)
        if not job.ends and job.ended_pod is None:
            return None
        return Ended(job_uid=job_uid, launch=launch, pod_uid=job.ended_pod or "", ends=job.ends)

    def of(self, job_uid: str) -> JobSignals:
        """The signals about the Job."""
        signals = self._jobs.setdefault(job_uid, JobSignals())
        self._jobs.move_to_end(job_uid)
        while len(self._jobs) > JOBS_LIMIT:
            self._jobs.popitem(last=False)
        return signals
