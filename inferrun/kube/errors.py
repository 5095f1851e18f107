"""Errors of requests to the API server.

    KubeError
    ├── Unreachable       no response, or an incomplete one; can be retried
    ├── Overloaded        429, 5xx, or 401 (a token that is being renewed); can be retried
    │   └── AdmissionUnavailable  500: an admission webhook that must be asked does not answer
    ├── Forbidden         403: a role is missing, or admission (such as a quota) rejected the request
    ├── NotFound          404
    ├── Conflict          409 on a write: the object has changed since it was read
    │   └── AlreadyExists 409 on a create: an object of that name exists
    ├── Gone              410: the position of a watch or list is too old
    ├── Invalid           any other 4xx: retrying does not help
    ├── PageTooLarge      a page of a list has too many bytes; request fewer items
    └── NotConfigured     the kubeconfig does not identify a cluster

Messages come from the API server, which names the object and the field, and are truncated.
"""

import json
from typing import Final


class KubeError(Exception):
    """A request to the API server failed. `retryable`: the same request may succeed later."""

    retryable = False

    def __init__(self, message: str, *, status: int = 0, reason: str = "") -> None:
        super().__init__(message[:1024])
        self.status = status
        self.reason = reason


class Unreachable(KubeError):
    """The API server did not respond."""

    retryable = True


class Overloaded(KubeError):
    """The API server is overloaded or failed."""

    retryable = True


class AdmissionUnavailable(Overloaded):
    """An admission webhook that must be asked does not answer."""


class Forbidden(KubeError):
    """A permission is missing, or admission rejected the request."""


class NotFound(KubeError):
    """No object of that name exists."""


class Conflict(KubeError):
    """The object has changed since it was read; read it again before the next attempt."""

    retryable = True


class AlreadyExists(Conflict):
    """An object of that name already exists."""

    retryable = False


class Gone(KubeError):
    """The position in the history is too old; list again."""

    retryable = True


class Invalid(KubeError):
    """The request is invalid; retrying it does not help."""


NOT_ADMITTED: Final = (Invalid, Forbidden, AdmissionUnavailable)
"""What the API server answers if it does not accept an object that it was sent, or a change of
one."""


class PageTooLarge(KubeError):
    """A page of a list has too many bytes."""

    retryable = True


class NotConfigured(KubeError):
    """The kubeconfig is missing or invalid, or does not contain the requested context."""


def error_of(status: int, body: bytes) -> KubeError:
    """The error for a response other than 2xx; `body` is a `Status` object or arbitrary text."""
    try:
        value = json.loads(body)
    except ValueError:
        value = {"message": body[:512].decode(errors="replace")}
    value = value if isinstance(value, dict) else {"message": value}
    reason, message = str(value.get("reason", "")), str(value.get("message", ""))
    # Admission denies with any code: a webhook that gives none is answered with 400, a policy that
    # gives no reason with 422.
    is_denied_by_webhook = "admission webhook" in message and "denied the request" in message
    is_denied_by_policy = "ValidatingAdmissionPolicy" in message and "denied request" in message
    kind: type[KubeError]
    if status == 409:
        kind = AlreadyExists if reason == "AlreadyExists" else Conflict
    elif status == 403 or is_denied_by_webhook or is_denied_by_policy:
        kind = Forbidden
    elif status == 404:
        kind = NotFound
    elif status == 410:
        kind = Gone
    elif status >= 500 and "failed calling webhook" in message:
        kind = AdmissionUnavailable
    elif status in (401, 429) or status >= 500:
        kind = Overloaded
    else:
        kind = Invalid
    return kind(message, status=status, reason=reason)
