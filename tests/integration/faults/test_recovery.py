"""Runs that are running are adopted when Temporal forgets them; `make recovery` tries it with a
thousand."""

from pathlib import Path

import pytest

from campaigns.faults.recovery import KINDS, recover

pytestmark = pytest.mark.thorough

RUNS = 12


@pytest.mark.parametrize("kind", KINDS)
async def test_running_jobs_are_adopted_when_temporal_forgets_them(
    tmp_path: Path, kind: str
) -> None:
    finding = await recover(tmp_path, kind=kind, count=RUNS)

    assert finding.problems == []
