"""The signals by which the shim's observer reports changes of a launch to the workflow of its run.

Both are level-triggered: they say only that the workflow should look. A signal may arrive more than once, late, or for
a launch that is over; what happened is read from the cluster. Only how Pods ended that may be gone comes with the signal, signed.
Names and fields are recorded in histories and are never renamed.
"""

from typing import Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from inferrun.timestamps import parse, rfc3339

STARTED_SIGNAL: Final = "started"
ENDED_SIGNAL: Final = "ended"

MAX_ENDS_LENGTH: Final = 128 * 1024
"""Of `Ended.ends`: a signal with more is dropped."""


class Started(BaseModel):
    """The container of a launch is running, since `started_at` (RFC 3339, never in the future)."""

    model_config = ConfigDict(frozen=True)

    job_uid: str
    launch: int
    pod_uid: str
    started_at: str

    @field_validator("started_at")
    @classmethod
    def _is_a_time(cls, value: str) -> str:
        """Anybody with access to Temporal can send signals: one that is invalid is dropped instead of failing the workflow."""
        rfc3339(parse(value))
        return value


class Ended(BaseModel):
    """There is something to judge: the Job is finished or gone, or its Pod cannot start or was taken away.

    `pod_uid` names the Pod in the last two cases; it is empty if it is not known or if the launch as a whole ended.
    """

    model_config = ConfigDict(frozen=True)

    job_uid: str
    launch: int
    pod_uid: str = ""
    ends: str = Field(default="", max_length=MAX_ENDS_LENGTH, description="See activities.judging.pod_end")
