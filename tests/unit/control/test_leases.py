"""Who may take a Lease, decided without comparing clocks of different machines, and that a page
states the times."""

import pytest

from control.leases import LeaseTiming, seconds_until_free
from inferrun.kube.objects import Object
from tests.unit.docs.pages import OPERATIONS

THEIRS = {
    "holderIdentity": "other",
    "acquireTime": "2099-01-01T00:00:00.000000Z",
    "leaseDurationSeconds": 8,
}
OURS = {**THEIRS, "holderIdentity": "us"}
OWN_TERM = THEIRS["acquireTime"]


@pytest.mark.parametrize(
    ("spec", "term", "unchanged", "expected"),
    [
        pytest.param(THEIRS, "", 0.0, 8.0, id="it has just been renewed"),
        pytest.param(THEIRS, "", 7.5, 0.5, id="it will soon expire"),
        pytest.param(THEIRS, "", 8.0, 0.0, id="it expires"),
        pytest.param(THEIRS, "", 100.0, 0.0, id="it has expired"),
        pytest.param(
            {**THEIRS, "renewTime": "1970-01-01T00:00:00.000000Z"},
            "",
            3,
            5,
            id="the holder's clock is slow",
        ),
        pytest.param(
            {**THEIRS, "renewTime": "2999-01-01T00:00:00.000000Z"},
            "",
            3,
            5,
            id="the holder's clock is fast",
        ),
        pytest.param(
            {**THEIRS, "leaseDurationSeconds": 15}, "", 8, 7, id="the holder's own duration counts"
        ),
        pytest.param(
            {**THEIRS, "leaseDurationSeconds": None},
            "",
            1,
            8,
            id="without a duration, the default counts",
        ),
        pytest.param({**THEIRS, "holderIdentity": None}, "", 0, 0, id="it was released"),
        pytest.param({}, "", 0, 0, id="it does not exist"),
        pytest.param(OURS, "", 0, 0, id="this process was restarted"),
        pytest.param(OURS, OWN_TERM, 0, 0, id="the term is its own"),
        pytest.param(OURS, "earlier", 0, 8, id="another process has the same identity"),
    ],
)
def test_a_candidate_waits_for_a_lease(
    spec: Object, term: str, unchanged: float, expected: float
) -> None:
    assert (
        seconds_until_free(spec, identity="us", term=term, unchanged=unchanged, duration=9)
        == expected
    )


@pytest.mark.parametrize(("renew", "give_up"), [(5, 5), (6, 5), (2, 7), (2, 8)])
def test_a_timing_that_would_allow_two_leaders_is_rejected(renew: float, give_up: float) -> None:
    with pytest.raises(ValueError, match="renew < give_up < duration"):
        LeaseTiming(renew=renew, give_up=give_up)


def test_the_page_on_operations_states_the_times_of_the_leases() -> None:
    text = " ".join(OPERATIONS.read_text(encoding="utf-8").split())
    lease = LeaseTiming()
    assert (
        f"renews the Lease every {lease.renew} seconds and stops acting after {lease.give_up:.0f} seconds"
        in text
    )
    assert f"The leader stops acting after {lease.give_up:.0f} seconds" in text
    assert (
        f"is replaced within {lease.look * 2:.0f} second, one that is killed within {lease.duration + 1}"
        in text
    )
