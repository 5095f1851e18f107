"""Why a run cannot be launched, as an exception that the launch turns into its result. Pure."""

from inferrun.kube.errors import Invalid, KubeError
from inferrun.reasons import Reason
from inferrun.resources.scalars import MESSAGE_LIMIT
from inferrun.service_ref import ServiceRef
from inferrun.text import one_line


class LaunchBlocked(Exception):
    """The run cannot be launched at present; `is_retryable` says whether something other than the run can resolve that.

    `service` is the object that serves the model, if the run waits for it. `is_unwatched`: no watch shows when that is resolved.
    """

    def __init__(
        self,
        reason: Reason,
        message: str,
        *,
        is_retryable: bool = True,
        service: ServiceRef | None = None,
        is_unwatched: bool = False,
    ) -> None:
        self.message = one_line(message, limit=MESSAGE_LIMIT)
        super().__init__(self.message)
        self.reason = reason
        self.is_retryable = is_retryable
        self.service = service
        self.is_unwatched = is_unwatched


def creation_rejected(kind: str, name: str, error: KubeError) -> LaunchBlocked:
    """The API server rejected an object: for good if it is invalid, for now if a quota or an admission plugin objects."""
    detail = one_line(str(error))
    if isinstance(error, Invalid):
        return LaunchBlocked(
            Reason.INVALID_SPEC, f"the API server rejected {kind} {name}: {detail}", is_retryable=False
        )
    reason = Reason.QUOTA_EXCEEDED if "exceeded quota" in detail else Reason.POD_REJECTED
    return LaunchBlocked(reason, f"{kind} {name} was not admitted: {detail}")


def name_taken(kind: str, name: str) -> LaunchBlocked:
    """An object that is not ours has the name that ours must have; it is never overwritten."""
    text = (
        f"a {kind} {name!r} that does not belong to this run exists in its namespace; delete it, then recreate the run"
    )
    return LaunchBlocked(Reason.NAME_TAKEN, text, is_retryable=False)
