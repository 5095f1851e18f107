"""The page on operations states the times of the election."""

from control.lease_record import LeaseTiming
from tests.unit.docs.pages import OPERATIONS


def test_the_page_on_operations_states_the_times_of_the_leases() -> None:
    text = " ".join(OPERATIONS.read_text(encoding="utf-8").split())
    lease = LeaseTiming()
    assert f"renews the Lease every {lease.renew} seconds and stops acting after {lease.give_up:.0f} seconds" in text
    assert f"The leader stops acting after {lease.give_up:.0f} seconds" in text
    assert f"is replaced within {lease.look * 2:.0f} second, one that is killed within {lease.duration + 1}" in text
