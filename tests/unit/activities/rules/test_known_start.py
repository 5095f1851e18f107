"""What is known of the start of a run, and which ConfigMaps it recognises."""

import base64

import pytest

from activities.rules.known_start import KnownStart, texts_of
from activities.rules.snapshot import hash_of
from tests.unit.objects import run

TEXTS = {"contract.json": '{"jobName":"x"}', "snapshot.json": '{"image":"own"}'}
CONTRACT = base64.b64encode(TEXTS["contract.json"].encode()).decode()


def test_a_run_without_a_contract_has_not_been_started() -> None:
    assert not KnownStart.of(run())
    assert not KnownStart().recognises(TEXTS)


@pytest.mark.parametrize("key", TEXTS)
def test_a_change_of_either_text_is_noticed(key: str) -> None:
    known = KnownStart.of(run(status={"contract": CONTRACT, "snapshotHash": hash_of(TEXTS)}))
    assert known.recognises(TEXTS)
    assert not known.recognises({**TEXTS, key: TEXTS[key] + " "})


def test_moving_text_from_one_key_to_the_other_is_noticed() -> None:
    known = KnownStart(hash=hash_of({"contract.json": "ab", "snapshot.json": "c"}))
    assert not known.recognises({"contract.json": "a", "snapshot.json": "bc"})


def test_a_run_that_an_earlier_version_started_is_recognised_by_its_contract() -> None:
    known = KnownStart.of(run(status={"contract": CONTRACT}))
    assert known.recognises(TEXTS)
    assert not known.recognises({**TEXTS, "contract.json": "{}"})


@pytest.mark.parametrize("data", [None, [], "x", {}, {"contract.json": None}, {"other": "x"}])
def test_missing_texts_are_empty(data: object) -> None:
    assert texts_of(data) == {"contract.json": "", "snapshot.json": ""}
