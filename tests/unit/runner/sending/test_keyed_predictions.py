"""Predictions are found by ids, in bounded memory, whatever the order of the records is."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from inferrun.plugins import (
    Batch,
    Block,
    CustomId,
    InputError,
    JsonRecords,
    RecordError,
    StoredResult,
)
from inferrun_runner.sending.keyed_predictions import KeyedPredictions

LIMIT = 1 << 30


def block(*ids: CustomId) -> Block:
    return Block(JsonRecords([b"0"] * len(ids)), ids)


def batch(*ids: CustomId, invalid: int | None = None) -> Batch:
    errors = {} if invalid is None else {invalid: RecordError("invalid_input", "")}
    return Batch(0, JsonRecords([b"0"] * len(ids)), ids, errors=errors)


@pytest.mark.parametrize("seed", range(5))
def test_what_is_found_is_what_was_predicted(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  not for security
    ids: list[CustomId] = [
        *range(300),
        *(f"{chance.random()}{chr(chance.randrange(32, 0xD800))}" for _ in range(300)),
        "",
        "\ud800",
        "a\0b",
    ]
    predictions = {one: b"%d" % at for at, one in enumerate(ids) if chance.random() < 0.7}

    def results() -> Iterator[StoredResult]:
        for at, one in enumerate(ids):
            yield StoredResult(at, one, prediction=predictions.get(one, b""))
        yield StoredResult(len(ids), None, prediction=b"of a record without an id")

    known = KeyedPredictions(results(), run="r", folder=tmp_path, limit=LIMIT)
    now = [*chance.sample(ids, 400), "new", None]
    chance.shuffle(now)
    expected = {at: predictions[one] for at, one in enumerate(now) if one in predictions}
    assert known.count([block(*now[:100]), block(*now[100:])]) == len(expected)
    assert known.of(batch(*now)) == expected
    at = next(iter(expected))
    assert known.of(batch(*now, invalid=at)) == {
        place: one for place, one in expected.items() if place != at
    }


def test_an_id_must_be_unique_only_if_it_is_in_the_input(tmp_path: Path) -> None:
    results = [
        StoredResult(0, "twice", prediction=b"1"),
        StoredResult(1, "twice"),
        StoredResult(2, 7, prediction=b"2"),
    ]
    known = KeyedPredictions(results, run="before", folder=tmp_path, limit=LIMIT)
    assert known.count([block("7")]) == 1
    with pytest.raises(
        InputError, match="several records of run 'before' have the custom_id 'twice'"
    ):
        known.count([block("twice")])
    with pytest.raises(InputError, match="several records of the input have the custom_id '7'"):
        known.count([block(7)])
