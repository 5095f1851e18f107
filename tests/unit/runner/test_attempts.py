"""How often the records of a batch were sent."""

from inferrun.plugins import RecordError
from runner.attempts import Attempts
from runner.record_errors import NOT_SENT
from tests.unit.runner.batches import batch, results

WRONG, UNSENT = RecordError("rejected", "wrong"), RecordError(NOT_SENT, "not sent")


def test_requests_with_the_batch_and_with_its_parts_are_added_up() -> None:
    whole = batch(range(4), first=100)
    attempts = Attempts(whole)
    for part in (whole, whole, whole.part(0, 2), whole.part(1, 2), whole.part(2, 4)):
        attempts.add(part)
    found = attempts.applied(results([WRONG, WRONG, WRONG, 3]))
    assert {at: error.attempts for at, error in found.errors.items()} == {0: 3, 1: 4, 2: 3}


def test_what_did_not_reach_the_server_does_not_count() -> None:
    whole = batch(range(2))
    attempts = Attempts(whole)
    attempts.add(whole, is_sent=False)
    attempts.add(whole)
    found = attempts.applied(results([WRONG, UNSENT]))
    assert {at: error.attempts for at, error in found.errors.items()} == {0: 1, 1: 0}
