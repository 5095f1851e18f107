"""The memory limit of a container, as both versions of cgroups say it."""

from pathlib import Path

import pytest

from inferrun_runner.program.pod_memory import memory_limit


@pytest.mark.parametrize(
    ("text", "limit"),
    [("536870912\n", 536870912), ("max\n", 0), ("9223372036854771712\n", 0), ("", 0)],
)
def test_the_limit_is_that_of_the_cgroup(tmp_path: Path, text: str, limit: int) -> None:
    (tmp_path / "memory").write_text(text)
    assert memory_limit((tmp_path / "none", tmp_path / "memory")) == limit


def test_without_a_cgroup_no_limit_is_known(tmp_path: Path) -> None:
    assert memory_limit((tmp_path / "none",)) == 0
