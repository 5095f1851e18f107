"""Why a run cannot be launched, as an exception that the launch turns into its result. Pure."""

from inferrun.contract import ServiceRef
from inferrun.fields.scalars import MESSAGE_LIMIT
from inferrun.kube.errors import AdmissionUnavailable, Invalid, KubeError
from inferrun.reasons import Reason
from inferrun.resources.status import InputRunStatus
from inferrun.text import one_line

PATIENT_TRIES = 3
"""Tries of an activity after which it reports what may pass in a second, such as a webhook that is
being restarted."""


class LaunchBlocked(Exception):
    """The run cannot be launched at present; `is_retryable` says whether something other than the
    run can resolve that.

    `service` is the object that serves the model, if the run waits for it. `is_unwatched`: no watch
    shows when that is resolved. `may_pass`: it may be over in a second. `input_run` is the run
    whose output is the input, as far as it is known.
    """

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        is_retryable: bool = True,
        service: ServiceRef | None = None,
        is_unwatched: bool = False,
        may_pass: bool = False,
    ) -> None:
        self.message = one_line(message, limit=MESSAGE_LIMIT)
        super().__init__(self.message)
        self.reason = reason
        self.is_retryable = is_retryable
        self.service = service
        self.is_unwatched = is_unwatched
        self.may_pass = may_pass
        self.input_run: InputRunStatus | None = None


def not_admitted(what: str, error: KubeError, *, may_pass: bool = False) -> LaunchBlocked:
    """The API server rejected an object, or the start of a Job: for good if it is invalid, for now
    if a quota or an admission plugin objects, or if an admission webhook that must be asked does
    not answer.
    """
    detail = one_line(str(error))
    if isinstance(error, Invalid):
        return LaunchBlocked(
            Reason.INVALID_SPEC, f"the API server rejected {what}: {detail}", is_retryable=False
        )
    reason = Reason.QUOTA_EXCEEDED if "exceeded quota" in detail else Reason.POD_REJECTED
    may_pass |= isinstance(error, AdmissionUnavailable)
    return LaunchBlocked(reason, f"{what} was not admitted: {detail}", may_pass=may_pass)


def name_taken(kind: str, name: str) -> LaunchBlocked:
    """An object that is not ours has the name that ours must have; it is never overwritten."""
    text = f"a {kind} {name!r} that does not belong to this run exists in its namespace; delete it, then recreate the run"
    return LaunchBlocked(Reason.NAME_TAKEN, text, is_retryable=False)
