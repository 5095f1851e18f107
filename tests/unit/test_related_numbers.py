"""Numbers that must be larger or smaller than one another cannot be set otherwise."""

from collections.abc import Callable
from functools import partial

import pytest

from control.otlp import DeliveryTiming
from control.temporal_calls import TemporalTiming
from inferrun.backoff import Backoff
from inferrun.kube.client import WatchTiming
from inferrun.kube.objects import SizeLimits
from inferrun.launches.verification_timing import VerifyTiming
from inferrun.runner_report import ReportSizes
from inferrun.stop_timing import StopTiming
from inferrun_runner.network.retries import RetryTiming
from operator_shim.observer.plan import PatienceTiming
from operator_shim.workflows import StartTiming
from workflows.timing import ActivityTiming, RecheckTiming


@pytest.mark.parametrize(
    "make",
    [
        partial(Backoff, 2.0, 1.0),
        partial(Backoff, 0.0, 1.0),
        partial(DeliveryTiming, limit=1.0),
        partial(TemporalTiming, tolerated=10.0),
        partial(WatchTiming, silence=30.0),
        partial(PatienceTiming, left_over=1.0),
        partial(ReportSizes, message=1600),
        partial(SizeLimits, free_form=2**21),
        partial(StartTiming, forgotten=20.0),
        partial(StopTiming, commit=4.0),
        partial(StopTiming, deadline_grace=10),
        partial(RetryTiming, first=20.0),
        partial(ActivityTiming, local=10),
        partial(ActivityTiming, log=5.0),
        partial(RecheckTiming, soon=600),
        partial(VerifyTiming, whole=300),
    ],
    ids=str,
)
def test_numbers_that_contradict_one_another_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="needs "):
        make()


def test_a_pause_is_doubled_up_to_the_longest() -> None:
    backoff = Backoff(1.0, 5.0)
    assert [backoff.after(failures) for failures in (1, 2, 3, 4, 10_000)] == [
        1.0,
        2.0,
        4.0,
        5.0,
        5.0,
    ]
    assert [backoff.longer(pause) for pause in (0.0, 1.0, 4.0, 5.0)] == [1.0, 2.0, 5.0, 5.0]
