"""Which error an answer of the API server is."""

import json

import pytest

from inferrun.kube.errors import Forbidden, Invalid, KubeError, error_of

DENIED = 'admission webhook "policy.example.org" denied the request: not now'


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (403, 'runs "a" is forbidden: exceeded quota: runs, requested: 1, used: 1, limited: 1', Forbidden),
        (400, DENIED, Forbidden),
        (422, "spec.schedule: Invalid value", Invalid),
        (400, "the body is not JSON", Invalid),
    ],
)
def test_a_denial_without_a_code_is_not_the_fault_of_the_request(
    status: int, message: str, kind: type[KubeError]
) -> None:
    """The API server answers 400 for an admission webhook that denies a request and gives no code."""
    error = error_of(status, json.dumps({"message": message}).encode())
    assert type(error) is kind
