"""What is planned for a launch, from what is seen of it and what was done before."""

from dataclasses import replace
from typing import Any

import pytest

from activities.watching.observation import Doing, Launch
from activities.watching.trimming import trim_job, trim_pod
from inferrun.kube.objects import Object
from operator_shim.observer.plan import (
    EVENTS_FIRST_SECONDS,
    LEFT_OVER_SECONDS,
    PROBE_SECONDS,
    SIGNAL_FIRST_SECONDS,
    START_SECONDS,
    STATUS_SECONDS,
    Answer,
    Command,
    Memory,
    News,
    Plan,
    View,
    plan,
)
from operator_shim.trimming import trim_run
from tests.unit.launches import UNSCHEDULED, live_job, live_pod, live_run, running
from tests.unit.objects import NOW, Json, at, waiting


def kept(trimmed: Object | None) -> Object:
    assert trimmed is not None
    return trimmed


JOB = kept(trim_job(live_job(clock=60)))
LAUNCH = Launch.of_job(JOB)
STARTED = live_pod(running(at(0)), phase="Running")
CREATING = live_pod(waiting("ContainerCreating"))


def view(*pods: Json, now: float = 0.0, **fields: Any) -> View:  # Any: fields of View
    """The Job, these Pods and a run whose status names the Job."""
    given = {"job": JOB, "run": trim_run(live_run(message=""))} | fields
    trimmed = tuple(kept(trim_pod(pod)) for pod in pods)
    return View(now=now, server_time=NOW, pods=trimmed, ends=(), node_lost_seconds=300, **given)


def memory() -> Memory:
    assert LAUNCH is not None
    return Memory(LAUNCH)


def remembered(planned: Plan) -> Memory:
    assert planned.memory is not None
    return planned.memory


@pytest.mark.parametrize(
    "seen",
    [
        view(STARTED),
        view(CREATING),
        view(live_pod(node=None, conditions=[UNSCHEDULED])),
        view(),
        view(job=kept(trim_job(live_job(condition="Complete")))),
        view(job=None),
        view(run=None),
    ],
    ids=["running", "creating", "unscheduled", "no Pod", "finished", "missing", "left over"],
)
def test_what_was_planned_is_not_planned_again_before_its_time(seen: View) -> None:
    first = remembered(plan(seen, memory()))
    again = plan(replace(seen, now=min(first.due, 0.1) / 2), first)
    assert again.commands == ()
    assert remembered(again).due == first.due


def test_a_start_is_reported_after_the_workflow_has_accepted_it() -> None:
    planned = plan(view(STARTED), memory())
    assert planned.commands == (Command.SIGNAL,)
    wanted = remembered(planned)
    assert wanted.signal is not None
    assert (wanted.signal.doing, wanted.progress) == (Doing.RUNNING, None)
    planned = plan(view(STARTED, now=1, news=News(accepted=wanted.signal)), wanted)
    assert planned.commands == (Command.WRITE,)
    assert remembered(planned).progress is not None


def test_a_signal_is_repeated_at_growing_intervals() -> None:
    finished = kept(trim_job(live_job(condition="Complete")))
    known, now, sent = memory(), 0.0, []
    while now < 100:
        planned = plan(view(now=now, job=finished), known)
        sent += [now] if Command.SIGNAL in planned.commands else []
        known = remembered(planned)
        now = known.due
    assert sent == [0, SIGNAL_FIRST_SECONDS, 3 * SIGNAL_FIRST_SECONDS, 7 * SIGNAL_FIRST_SECONDS]


def test_a_usual_wait_is_written_only_if_it_lasts_and_no_more_often_than_others() -> None:
    known = remembered(plan(view(CREATING), memory()))
    planned = plan(view(CREATING, now=START_SECONDS), known)
    assert Command.WRITE in planned.commands
    changed = live_pod(node=None, conditions=[UNSCHEDULED], version=2)
    planned = plan(view(changed, now=START_SECONDS + 1), remembered(planned))
    assert Command.WRITE not in planned.commands
    assert remembered(planned).due <= START_SECONDS + STATUS_SECONDS


def test_changes_do_not_postpone_a_read_of_events() -> None:
    known = memory()
    for now in (0.0, EVENTS_FIRST_SECONDS - 1, EVENTS_FIRST_SECONDS):
        planned = plan(view(live_pod(waiting("ContainerCreating"), version=int(now)), now=now), known)
        assert (Command.READ_EVENTS in planned.commands) is (now >= EVENTS_FIRST_SECONDS)
        known = remembered(planned)
    assert planned.subject == "pod-a"


def test_a_job_that_the_watch_does_not_have_is_looked_for_before_its_end_is_signalled() -> None:
    known = remembered(plan(view(job=None), memory()))
    assert known.due == PROBE_SECONDS
    planned = plan(view(now=1, job=None), known)
    assert planned.commands == (Command.FIND_JOB,)
    found = plan(view(now=2, job=None, news=News(answer=Answer(live_job()))), remembered(planned))
    assert found.commands == (Command.WATCH_AGAIN,)
    gone = plan(view(now=2, job=None, news=News(answer=Answer(None))), remembered(planned))
    assert gone.commands == (Command.SIGNAL,)


def test_a_job_whose_run_is_gone_is_withdrawn_after_a_while_and_forgotten_when_it_is_gone_too() -> None:
    known = remembered(plan(view(run=None), memory()))
    planned = plan(view(now=LEFT_OVER_SECONDS, run=None), known)
    assert planned.commands == (Command.WITHDRAW,)
    assert plan(view(now=20, run=None, job=None), remembered(planned)).memory is None
