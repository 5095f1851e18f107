"""Which volumes are deleted and how many are created."""

from typing import Any

from tools.devcluster.volumes import plan


def _volume(name: str, phase: str) -> dict[str, Any]:  # Any: a manifest
    return {"metadata": {"name": name}, "status": {"phase": phase}}


def test_a_released_volume_is_replaced_and_a_bound_one_is_kept() -> None:
    listed = [_volume("a", "Released"), _volume("b", "Bound"), _volume("c", "Available")]
    assert plan(listed, free=3) == (["a"], 2)


def test_nothing_changes_if_enough_volumes_are_free() -> None:
    assert plan([_volume("a", "Available"), _volume("b", "Available")], free=2) == ([], 0)
