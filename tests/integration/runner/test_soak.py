"""A hundred kills of Pods, over all stores, alone and with a second Pod beside them: no record is
lost, stored twice or misplaced.

`make soak` does the same with a thousand.
"""

from pathlib import Path

import pytest

from campaigns.soak.killing import soak
from campaigns.soak.ledger import ACCOUNTS, RECORDS, Entry, differences

pytestmark = pytest.mark.thorough

KILLS = 13


@pytest.mark.parametrize("pods", [1, 2])
@pytest.mark.parametrize("label", ACCOUNTS)
async def test_kills_neither_lose_nor_duplicate_records(
    tmp_path: Path, label: str, pods: int
) -> None:
    tally = await soak(label, tmp_path, kills=KILLS, pods=pods, seed=pods)
    assert tally.faults == []
    assert tally.kills >= KILLS
    assert tally.records == tally.runs * RECORDS


def test_the_ledger_finds_what_is_missing_stored_twice_misplaced_or_wrong() -> None:
    whole = [Entry(index, f"key-{index:05}", index + 0.5) for index in range(RECORDS)]
    assert differences(whole) == []
    assert differences(whole[1:]) == ["1 missing, 0 stored twice, in order: True"]
    assert differences([*whole, whole[-1]]) == ["0 missing, 1 stored twice, in order: True"]
    assert differences([whole[1], whole[0], *whole[2:]]) == [
        "0 missing, 0 stored twice, in order: False"
    ]
    assert len(differences([Entry(0, "key-00000", 7.0), *whole[1:]])) == 1
    assert len(differences([Entry(0, "key-00001", 0.5), *whole[1:]])) == 1
