"""The page on operations states the times of the election and of the claims."""

from inferrun.kube.claims import ClaimTiming
from inferrun.kube.lease_record import LeaseTiming
from tests.unit.docs.pages import OPERATIONS


def test_the_page_on_operations_states_the_times_of_the_leases() -> None:
    text = " ".join(OPERATIONS.read_text(encoding="utf-8").split())
    lease, claim = LeaseTiming(), ClaimTiming()
    assert f"renews the Lease every {lease.renew} seconds and stops acting after {lease.give_up:.0f} seconds" in text
    assert f"The leader stops acting after {lease.give_up:.0f} seconds" in text
    assert f"is replaced within {lease.look * 2:.0f} second, one that is killed within {lease.duration + 1}" in text
    assert f"has not renewed its claim for {claim.duration:.0f} seconds" in text
    assert f"is written again within {claim.renew:.0f} seconds" in text
