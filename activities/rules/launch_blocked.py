"""Why a run cannot be launched, as an exception that the launch turns into its result. Pure."""

from inferrun.kube.errors import Invalid, KubeError
from inferrun.reasons import Reason
from inferrun.text import one_line


class LaunchBlocked(Exception):
    """The run cannot be launched as things are; `is_retryable` says whether an edit of something else can change that."""

    def __init__(self, reason: Reason, message: str, *, is_retryable: bool = True) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.is_retryable = is_retryable


def creation_rejected(kind: str, name: str, error: KubeError) -> LaunchBlocked:
    """The API server rejected an object: for good if it is invalid, for now if a quota or an admission plugin objects."""
    said = one_line(str(error))
    if isinstance(error, Invalid):
        return LaunchBlocked(Reason.INVALID_SPEC, f"the API server refuses {kind} {name}: {said}", is_retryable=False)
    reason = Reason.QUOTA_EXCEEDED if "exceeded quota" in said else Reason.POD_REJECTED
    return LaunchBlocked(reason, f"{kind} {name} is not admitted: {said}")


def name_taken(kind: str, name: str) -> LaunchBlocked:
    """An object of somebody else has the name that ours must have; it is never overwritten."""
    text = (
        f"a {kind} {name!r} that is not this run's is in its namespace; delete or rename it, then create the run again"
    )
    return LaunchBlocked(Reason.NAME_TAKEN, text, is_retryable=False)
