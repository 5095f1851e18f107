"""Which run a workflow executes, by its memo."""

from collections.abc import Mapping

import pytest

from control.temporal_calls import read_run
from tests.unit.objects import RUN


class Listed:
    """What Temporal lists, with this memo; None: one that cannot be decoded."""

    def __init__(self, memo: Mapping[str, object] | None) -> None:
        self._memo = memo

    async def memo(self) -> Mapping[str, object]:
        if self._memo is None:
            raise RuntimeError("Unknown payload encoding binary/strange")
        return self._memo


async def test_a_memo_names_the_run_of_our_installation() -> None:
    listed = Listed({"installation": "ours.cluster-uid", "run": RUN.model_dump()})
    assert await read_run(listed, installation="ours.cluster-uid") == RUN
    assert await read_run(listed, installation="renamed.cluster-uid") == RUN, (
        "it continues what the earlier release began"
    )
    assert await read_run(listed, installation="ours.another-cluster") is None
    assert (
        await read_run(Listed({"run": RUN.model_dump()}), installation="ours.cluster-uid") is None
    )


@pytest.mark.parametrize(
    "run", [None, "iris", {"name": "iris"}, {"namespace": 1, "name": [], "uid": {}}]
)
async def test_a_memo_that_names_no_run_is_not_ours(run: object) -> None:
    assert await read_run(Listed({"installation": "ours", "run": run}), installation="ours") is None


@pytest.mark.parametrize("memo", [None, {}, {"installation": "ours"}])
async def test_a_memo_that_cannot_be_decoded_or_is_incomplete_is_not_ours(
    memo: Mapping[str, object] | None,
) -> None:
    assert await read_run(Listed(memo), installation="ours") is None
