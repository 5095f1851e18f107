"""What the API server says when it refuses.

    KubeError
    ├── Unreachable       no answer, or a broken one; worth another try
    ├── Overloaded        429, 5xx, or 401 (a token that is being renewed): worth another try
    ├── Forbidden         403: a role is missing, or an admission (a quota) refused
    ├── NotFound          404
    ├── Conflict          409 on a write: the object has changed since it was read
    │   └── AlreadyExists 409 on a create: an object of that name is there
    ├── Gone              410: a watch's or a list's position is too old
    ├── Invalid           any other 4xx: the request will be refused again
    └── NotConfigured     what is to name the cluster does not

Every text is bounded; it is the API server's message, which names the object and the field.
"""

import json


class KubeError(Exception):
    """A request to the API server failed; `retryable` says whether the same request may succeed later."""

    retryable = False

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message[:1024])
        self.status = status
        self.reason = reason


class Unreachable(KubeError):
    """No answer came."""

    retryable = True


class Overloaded(KubeError):
    """The API server asks to wait, or failed itself."""

    retryable = True


class Forbidden(KubeError):
    """The identity lacks a right, or an admission refused."""


class NotFound(KubeError):
    """No object of that name is there."""


class Conflict(KubeError):
    """The object changed since it was read; read it and decide again."""

    retryable = True


class AlreadyExists(Conflict):
    """An object of that name is there already."""

    retryable = False


class Gone(KubeError):
    """The position in the watch's history is too old; list again."""

    retryable = True


class Invalid(KubeError):
    """The request will be refused again as it is."""


class NotConfigured(KubeError):
    """The kubeconfig is missing or wrong, or does not hold the context that was asked for."""


def error_of(status: int, body: bytes) -> KubeError:
    """The error for an answer that is not 2xx; `body` is a `Status` object or any text."""
    reason, message = _read_status(body)
    kind: type[KubeError]
    if status == 409:
        kind = AlreadyExists if reason == "AlreadyExists" else Conflict
    elif status == 403 or _is_admission_denial(status, message):
        kind = Forbidden
    elif status == 404:
        kind = NotFound
    elif status == 410:
        kind = Gone
    elif status in (401, 429) or status >= 500:
        kind = Overloaded
    else:
        kind = Invalid
    return kind(message, status=status, reason=reason)


def _is_admission_denial(status: int, message: str) -> bool:
    """Whether an admission webhook denied a request without a code, which the API server turns into 400."""
    return status == 400 and "admission webhook" in message and "denied the request" in message


def _read_status(body: bytes) -> tuple[str, str]:
    try:
        value = json.loads(body)
    except ValueError:
        return "", body[:512].decode(errors="replace")
    if not isinstance(value, dict):
        return "", str(value)
    return str(value.get("reason", "")), str(value.get("message", ""))
