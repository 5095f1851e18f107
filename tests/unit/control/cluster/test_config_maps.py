"""Which ConfigMaps a run recognises as what it was started with."""

import pytest

from control.cluster.config_maps import is_start_of
from inferrun.launches.run_texts import hash_of, texts_of
from tests.unit.objects import run

TEXTS = {"contract.json": '{"jobName":"x"}', "snapshot.json": '{"image":"own"}'}


def test_a_run_without_a_digest_was_started_with_no_texts() -> None:
    assert not is_start_of(run(), TEXTS)
    assert not is_start_of(run(), {})


@pytest.mark.parametrize("key", TEXTS)
def test_a_change_of_either_text_is_noticed(key: str) -> None:
    started = run(status={"snapshotHash": hash_of(TEXTS)})
    assert is_start_of(started, TEXTS)
    assert not is_start_of(started, {**TEXTS, key: TEXTS[key] + " "})


def test_moving_text_from_one_key_to_the_other_is_noticed() -> None:
    started = run(status={"snapshotHash": hash_of({"contract.json": "ab", "snapshot.json": "c"})})
    assert not is_start_of(started, {"contract.json": "a", "snapshot.json": "bc"})


@pytest.mark.parametrize("data", [None, [], "x", {}, {"contract.json": None}, {"other": "x"}])
def test_missing_texts_are_empty(data: object) -> None:
    assert texts_of(data) == {"contract.json": "", "snapshot.json": ""}
