"""Answers are saved until their chunk is committed, and are what they were."""

from inferrun.formats.saved_answers import SavedAnswer, dump_answers, load_answers
from inferrun.plugins import Batch, Chunk, JsonRecords, RecordError, Results, TokenUsage
from inferrun_runner.sending.saved_answers import KnownAnswers, UnsavedAnswers

CHUNKS = tuple(Chunk(at, 0, 10 * at, 10 * at + 10, 10 * at, 10) for at in range(3))
FIVE = TokenUsage(prompt_tokens=3, completion_tokens=2, total_tokens=5)


def batch(first: int, count: int = 1, *, ids: tuple[str, ...] = ()) -> Batch:
    return Batch(first, JsonRecords([b"[%d]" % (first + at) for at in range(count)]), ids)


def results(first: int, count: int = 1, *, usage: TokenUsage = FIVE) -> Results:
    return Results(JsonRecords([b"%d" % -(first + at) for at in range(count)]), {}, usage)


def test_what_was_written_is_read() -> None:
    answers = [
        SavedAnswer(0, b'{"a":"b\\tc"}', FIVE, 'id\t\n"1'),
        SavedAnswer(7, b"1e400\t", custom_id=5),
        SavedAnswer(2**40, b"[null, 123456789012345678901234567890]"),
    ]
    content = dump_answers(answers)
    assert list(load_answers(content)) == answers
    assert list(load_answers(dump_answers([]))) == []


def test_a_file_that_is_not_whole_has_no_answers() -> None:
    content = dump_answers([SavedAnswer(0, b"1"), SavedAnswer(1, b"2")])
    for damaged in (b"", content[:-3], content[:70], content.replace(b"\t2\n", b"\t3\n"), b"x"):
        assert list(load_answers(damaged)) == []


def test_only_answers_of_chunks_that_are_not_committed_are_taken() -> None:
    unsaved = UnsavedAnswers(CHUNKS, committed=[1])
    unsaved.add(batch(8, 4, ids=("a", "b", "c", "d")), results(8, 4))
    unsaved.add(batch(25), results(25))
    failed = Results(JsonRecords([b"null"]), {0: RecordError("rejected", "no")})
    unsaved.add(batch(26), failed)
    taken = unsaved.take()
    assert [(one.index, one.custom_id, one.usage.total_tokens) for one in taken] == [
        (8, "a", 5),
        (9, "b", 0),
        (25, None, 5),
    ]
    assert unsaved.take() == []


def test_a_file_is_needless_once_its_chunks_are_committed() -> None:
    unsaved = UnsavedAnswers(CHUNKS, committed=[])
    unsaved.note_saved("old", [SavedAnswer(1, b"1"), SavedAnswer(11, b"1")])
    unsaved.note_saved("new", [SavedAnswer(21, b"1")])
    unsaved.note_commit(0)
    assert unsaved.needless() == []
    unsaved.note_commit(1)
    assert unsaved.needless() == ["old"]
    assert unsaved.needless() == []


def test_many_answers_without_tokens_are_not_held() -> None:
    unsaved = UnsavedAnswers(CHUNKS, committed=[])
    many = Results(JsonRecords([b"1" * (1 << 20)]))
    unsaved.add(batch(0), many)
    assert not unsaved.is_full
    assert unsaved.take() == []
    unsaved.add(batch(0), Results(many.values, {}, FIVE))
    assert unsaved.is_full
    assert len(unsaved.take()) == 1


def test_answers_without_tokens_of_several_chunks_are_not_many_either() -> None:
    unsaved = UnsavedAnswers(CHUNKS, committed=[])
    for first in (0, 10, 20):
        unsaved.add(batch(first), Results(JsonRecords([b"1" * (1 << 19)])))
    assert not unsaved.is_full
    unsaved.add(batch(5), results(5))
    assert 5 in [one.index for one in unsaved.take()]


async def test_known_answers_are_not_asked_for_again_and_their_tokens_count() -> None:
    known = KnownAnswers({3: SavedAnswer(3, b"-3", FIVE), 5: SavedAnswer(5, b"-5")})
    asked = list[bytes]()

    async def predict(part: Batch) -> Results:
        assert isinstance(part.records, JsonRecords)
        asked.extend(part.records.texts)
        return Results(JsonRecords([b"0"] * len(part)), {}, FIVE)

    found = await known.predict(batch(2, 4), predict)
    assert found.values == JsonRecords([b"0", b"-3", b"0", b"-5"])
    assert found.usage.total_tokens == 10
    assert asked == [b"[2]", b"[4]"]
    assert (await known.predict(batch(5), predict)).values == JsonRecords([b"-5"])
    assert len(asked) == 2
