"""The signals by which the shim's observer reports changes of a launch to the workflow of its run.

Both are level-triggered: they say only that the workflow should look. A signal may arrive more than
once, late, or for a launch that is over; what happened is read from the cluster. Only how Pods
ended that may be gone comes with the signal, signed. Names and fields are recorded in histories and
are never renamed.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, Field, field_validator

from inferrun.timestamps import parse, rfc3339

STARTED_SIGNAL: Final = "started"
ENDED_SIGNAL: Final = "ended"

MAX_ENDS_LENGTH: Final = 128 * 1024
"""The length of `Ended.ends`: a signal with more is dropped."""


class Started(BaseModel, frozen=True):
    """The container of a launch is running, since `started_at` (RFC 3339, never in the future)."""

    job_uid: str
    launch: int
    pod_uid: str
    started_at: str

    @field_validator("started_at")
    @classmethod
    def _is_a_time(cls, value: str) -> str:
        """Anybody with access to Temporal can send signals: one that is invalid is dropped instead
        of failing the workflow."""
        rfc3339(parse(value))
        return value


class Ended(BaseModel, frozen=True):
    """There is something to judge: the Job is finished or gone, or its Pod cannot start or was
    taken away.

    `pod_uid` names the Pod in the last two cases; it is empty if it is not known or if the launch
    as a whole ended.
    """

    job_uid: str
    launch: int
    pod_uid: str = ""
    ends: str = Field(default="", max_length=MAX_ENDS_LENGTH)
    """See control.launches.pod_end."""


JOBS_LIMIT = 8
"""Jobs whose signals are kept; anybody with access to Temporal can send signals about Jobs that do
not exist."""


@dataclass
class JobSignals:
    """The latest start of a Job, the Pod because of which it should be inspected, and how its Pods
    were seen to end."""

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
        """The UID of the Pod, or an empty string, if the Job should be inspected because of a
        signal not yet taken."""
        job = self.of(job_uid)
        ended_pod, job.ended_pod = job.ended_pod, None
        return ended_pod

    def latest_end(self, job_uid: str, *, launch: int) -> Ended | None:
        """The latest signal as the next execution of the workflow needs it: without the Pod if that
        has been taken."""
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
