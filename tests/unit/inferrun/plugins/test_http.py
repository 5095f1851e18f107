"""How responses are classified that are not a success."""

import pytest

from inferrun.plugins import FaultKind
from inferrun.plugins.http import kind_of_status


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, FaultKind.REJECTED),
        (404, FaultKind.FAILED),
        (408, FaultKind.TIMEOUT),
        (413, FaultKind.TOO_LARGE),
        (425, FaultKind.UNAVAILABLE),
        (429, FaultKind.BUSY),
        (504, FaultKind.UNAVAILABLE),
        (520, FaultKind.UNAVAILABLE),
        (524, FaultKind.UNAVAILABLE),
        (525, FaultKind.FAILED),
        (529, FaultKind.BUSY),
    ],
)
def test_a_status_says_whether_a_retry_may_help(status: int, kind: FaultKind) -> None:
    assert kind_of_status(status) is kind
