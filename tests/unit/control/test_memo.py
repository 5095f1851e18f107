"""Which run a workflow executes, by its memo."""

import pytest

from control.memo import run_of_memo
from tests.unit.objects import RUN


def test_a_memo_names_the_run_of_our_installation() -> None:
    memo = {"installation": "ours.cluster-uid", "run": RUN.model_dump()}
    assert run_of_memo(memo, installation="ours.cluster-uid") == RUN
    assert run_of_memo(memo, installation="renamed.cluster-uid") == RUN, "it continues what the earlier release began"
    assert run_of_memo(memo, installation="ours.another-cluster") is None
    assert run_of_memo({"run": RUN.model_dump()}, installation="ours.cluster-uid") is None


@pytest.mark.parametrize("run", [None, "iris", {"name": "iris"}, {"namespace": 1, "name": [], "uid": {}}])
def test_a_memo_that_names_no_run_is_not_ours(run: object) -> None:
    assert run_of_memo({"installation": "ours", "run": run}, installation="ours") is None
