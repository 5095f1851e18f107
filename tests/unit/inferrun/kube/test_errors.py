"""Which error an answer of the API server is."""

import json

import pytest

from inferrun.kube.errors import (
    AdmissionUnavailable,
    Forbidden,
    Invalid,
    KubeError,
    Overloaded,
    error_of,
)

DENIED = 'admission webhook "policy.example.org" denied the request: not now'
POLICY = "jobs.batch \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not now"


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (
            403,
            'runs "a" is forbidden: exceeded quota: runs, requested: 1, used: 1, limited: 1',
            Forbidden,
        ),
        (400, DENIED, Forbidden),
        (422, POLICY, Forbidden),
        (401, POLICY, Forbidden),
        (422, "spec.schedule: Invalid value", Invalid),
        (400, "the body is not JSON", Invalid),
        (
            500,
            'failed calling webhook "mjob.kb.io": connect: connection refused',
            AdmissionUnavailable,
        ),
        (500, "etcdserver: request timed out", Overloaded),
    ],
)
def test_a_denial_is_not_the_fault_of_the_request_whatever_its_code(
    status: int, message: str, kind: type[KubeError]
) -> None:
    """A webhook that gives no code is answered with 400, a policy with the code of its own reason,
    by default 422."""
    error = error_of(status, json.dumps({"message": message}).encode())
    assert type(error) is kind
