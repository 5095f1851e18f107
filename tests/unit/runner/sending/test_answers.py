"""Predictions are found again by their keys, whether they are in memory or on the disk."""

import random
from pathlib import Path

import pytest

from inferrun.formats.record_keys import key_of
from inferrun_runner.sending.answers import Answers


def text_of(number: int) -> bytes:
    return b'{"prediction": %d}' % number * (1 + number % 7)


def keys(numbers: range) -> list[bytes]:
    return [key_of(b"%d" % number) for number in numbers]


def filled(folder: Path, count: int, *, limit: int = 1 << 30) -> Answers:
    answers = Answers(folder, limit=limit)
    for number, key in enumerate(keys(range(count))):
        answers.add(key, text_of(number))
        if answers.is_to_flush:
            answers.store(answers.take())
    return answers


def found_in(answers: Answers, key: bytes) -> bytes | None:
    if text := answers.held(key):
        return text
    return answers.find([key]).get(key) if answers.may_be_stored(key) else None


def test_few_answers_need_no_file(tmp_path: Path) -> None:
    answers = filled(tmp_path, 100)
    assert found_in(answers, keys(range(1))[0]) == text_of(0)
    assert not answers.may_be_stored(keys(range(1))[0])
    assert list(tmp_path.iterdir()) == []


def test_many_answers_are_found_on_the_disk_and_new_keys_are_not(tmp_path: Path) -> None:
    count = 30_000
    answers = filled(tmp_path, count)
    assert list(tmp_path.iterdir()) == [], "the files have no names, so that none is left behind"
    chosen = random.Random(0).sample(range(count), 2000)  # noqa: S311  not for security
    for number in chosen:
        assert found_in(answers, key_of(b"%d" % number)) == text_of(number)
    new = keys(range(count, count + 10_000))
    assert [found_in(answers, key) for key in new] == [None] * len(new)
    assert sum(map(answers.may_be_stored, new)) < 100, "the filter spares the disk"
    answers.close()


def test_what_is_being_stored_is_still_found(tmp_path: Path) -> None:
    answers = filled(tmp_path, 10)
    taken = answers.take()
    key = next(iter(taken))
    assert answers.held(key) == taken[key]
    answers.store(taken)
    assert answers.held(key) is None
    assert answers.find([key]) == {key: taken[key]}
    answers.close()


def test_beyond_the_limit_of_the_places_nothing_wrong_is_found(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a journal, SQLite does not say what a statement that fails leaves of its database."""
    answers = Answers(tmp_path, limit=1 << 20)
    for number, key in enumerate(keys(range(60_000))):
        answers.add(key, b"%d" % number)
        if answers.is_to_flush:
            answers.store(answers.take())
    assert [vars(one)["error"] for one in caplog.records] == ["database or disk is full"]
    found = [found_in(answers, key) for key in keys(range(60_000))]
    assert all(text in (None, b"%d" % number) for number, text in enumerate(found))
    answers.close()


def test_beyond_the_limit_nothing_is_added_and_what_is_there_is_found(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers = filled(tmp_path, 20_000, limit=300_000)
    assert "no more predictions are kept" in caplog.text
    numbers = [n for n, key in enumerate(keys(range(20_000))) if found_in(answers, key)]
    assert 0 < len(numbers) < 20_000
    assert numbers == list(range(len(numbers)))
    answers.close()
