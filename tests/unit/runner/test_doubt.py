"""What responses say about the server."""

from inferrun.plugins import Batch, RecordError
from runner.doubt import Doubt
from runner.record_errors import NOT_SENT
from tests.unit.runner.batches import batch, decoded, results

UNSENT = RecordError(NOT_SENT, "the record was not sent")


def example_after(*values: object) -> Batch | None:
    doubt = Doubt()
    doubt.resolve(batch(range(len(values)), first=40), results(values))
    return doubt.example


def test_the_example_is_a_record_that_had_a_response() -> None:
    for values in ([1, 2], [UNSENT, 2], [UNSENT, RecordError("invalid_prediction", "NaN")]):
        found = example_after(*values)
        assert found is not None
        assert (found.first, decoded(found)) == ((40, [0]) if values[0] == 1 else (41, [1]))


def test_records_that_were_not_sent_say_nothing_about_the_server() -> None:
    assert example_after(UNSENT, UNSENT) is None


def test_the_first_example_is_kept() -> None:
    doubt = Doubt()
    doubt.resolve(batch([5, 6]), results([5, 6]))
    doubt.resolve(batch([7]), results([7]))
    assert doubt.example is not None
    assert decoded(doubt.example) == [5]


def test_every_sixteenth_record_without_an_example_is_one_too_many() -> None:
    doubt = Doubt()
    assert [at for at in range(1, 50) if doubt.add_unproven()] == [16, 32, 48]


def test_pairs_count_until_several_records_together_have_a_valid_response() -> None:
    doubt = Doubt()
    assert not any(doubt.add_pair() for _ in range(3))
    doubt.resolve(batch([1]), results([1]))
    assert doubt.add_pair()
    doubt.resolve(batch([1, 2]), results([1, 2]))
    assert not doubt.add_pair()
