"""What a launch is doing, from its Job, Pods, Events and what was observed before."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from control.launches.observation import (
    REPLACEMENT_SECONDS,
    Before,
    Doing,
    Launch,
    Observation,
    clamped_start,
    event_subject,
    is_concluded,
    is_launch_left_over,
    is_superseded,
    launch_number,
    observe,
    observe_absent,
    running_message,
)
from control.launches.pod_end import PodEnd
from control.launches.trimming import trim_events, trim_job, trim_pod
from inferrun import wellknown
from inferrun.launches.pod_state import may_run
from inferrun.names import job_base_name, job_name
from inferrun.reasons import Reason
from tests.unit.launches import (
    DISRUPTED,
    JOB_NAME,
    JOB_UID,
    UNSCHEDULED,
    live_job,
    live_pod,
    live_run,
    running,
)
from tests.unit.objects import NOW, RUN, STARTED, Json, at, event, terminated, waiting

LAUNCH = Launch(RUN, job_name=JOB_NAME, job_uid=JOB_UID, launch=1, attempt=1, is_builtin=False)


def seen(
    job: Json,
    *pods: Json,
    events: tuple[Json, ...] = (),
    ends: tuple[PodEnd, ...] = (),
    before: Before | None = None,
    quiet: float = 0,
) -> Observation:
    """Observe untrimmed and trimmed objects: both must give the same."""
    kept = [one for one in map(trim_pod, pods) if one is not None]
    inputs: tuple[tuple[Json, list[Json], tuple[Json, ...]], ...] = (
        (job, list(pods), events),
        (trim_job(job) or {}, kept, trim_events(events)),
    )
    observations = [
        observe(
            one,
            live,
            events=read,
            ends=ends,
            before=before or Before(),
            now=NOW,
            quiet_seconds=quiet,
            node_lost_seconds=300,
        )
        for one, live, read in inputs
    ]
    assert observations[0] == observations[1]
    return observations[0]


def waits(observation: Observation) -> tuple[Reason, bool]:
    assert observation.doing is Doing.WAITING
    assert observation.wait is not None
    return observation.wait.reason, observation.wait.is_warning


def unreachable(seconds: float, *, containers_ready: str = "True") -> Json:
    """A running Pod whose node stopped responding so many seconds ago."""
    conditions: list[Json] = [
        {"type": "Ready", "status": "False", "lastTransitionTime": at(seconds)},
        {"type": "ContainersReady", "status": containers_ready},
    ]
    return live_pod(running(at(900)), phase="Running", conditions=conditions)


TAKEN = Observation(Doing.TAKEN, pod_uid="pod-a")
DISRUPTED_END = PodEnd("pod-a", "a", JOB_UID, exit_code=137, started_at=STARTED, is_disrupted=True)


def test_a_node_that_does_not_respond_is_reported_while_the_run_waits_for_it() -> None:
    observed = seen(live_job(), unreachable(100))
    assert (observed.doing, observed.lost_in) == (Doing.RUNNING, 200)
    assert observed.unreachable == (
        f"node node-1 has not responded since {at(100)}; the run continues in another Pod after 300 s (nodeLostSeconds)"
    )


def test_a_node_that_does_not_respond_for_long_is_lost() -> None:
    assert seen(live_job(), unreachable(300)) == Observation(
        Doing.STUCK, pod_uid="pod-a", pod_name=f"{JOB_NAME}-pod-a"
    )


def test_a_pod_that_is_not_ready_because_of_its_containers_has_a_node_that_responds() -> None:
    observed = seen(live_job(), unreachable(300, containers_ready="False"))
    assert (observed.doing, observed.unreachable, observed.lost_in) == (Doing.RUNNING, "", None)


def test_a_pod_that_outlives_its_grace_period_by_far_is_on_a_lost_node() -> None:
    """Also one that had not started: the control plane cannot mark it, but deletes it."""
    waits_there = live_pod(waiting("ContainerCreating"), deletionTimestamp=at(300))
    assert seen(live_job(), waits_there).doing is Doing.STUCK
    observed = seen(
        live_job(), live_pod(running(at(900)), phase="Running", deletionTimestamp=at(10))
    )
    assert (observed.doing, observed.unreachable, observed.lost_in) == (Doing.RUNNING, "", 290)


def test_a_pod_without_a_node_or_with_an_ended_container_is_on_no_lost_node() -> None:
    unbound = live_pod(node=None, deletionTimestamp=at(3000))
    held = live_pod(terminated(1), phase="Running", deletionTimestamp=at(3000))
    for one in (unbound, held):
        assert seen(live_job(), one).doing is not Doing.STUCK


def test_a_container_that_runs_is_running_since_its_start() -> None:
    observation = seen(live_job(), live_pod(running(at(5)), phase="Running", age=10))
    assert (observation.doing, observation.pod_uid, observation.started_at) == (
        Doing.RUNNING,
        "pod-a",
        at(5),
    )
    assert observation.pod_name == f"{JOB_NAME}-pod-a"


@pytest.mark.parametrize(
    ("told", "age", "clamped"),
    [
        (5, 10, 5),
        (40, 10, 10),  # a node that is behind: not before the Pod was created
        (-40, 10, 0),  # a node that is ahead: not in the future
        (5, -3, -3),  # our own clock is behind the API server's
    ],
)
def test_the_start_is_clamped_between_the_pods_creation_and_now(
    told: int, age: int, clamped: int
) -> None:
    assert clamped_start(live_pod(running(at(told)), age=age), now=NOW) == at(clamped)


def test_a_start_whose_time_the_kubelet_does_not_know_is_waited_for() -> None:
    pod = live_pod(running("0001-01-01T00:00:00Z"), phase="Running")
    assert seen(live_job(), pod).doing is Doing.WAITING


@pytest.mark.parametrize("condition", ["Complete", "Failed"])
def test_a_finished_job_has_ended_whatever_its_pods_do(condition: str) -> None:
    for pods in ((), (live_pod(running(STARTED)),), (live_pod(waiting("InvalidImageName")),)):
        assert seen(live_job(condition=condition), *pods) == Observation(Doing.ENDED)


@pytest.mark.parametrize("condition", ["FailureTarget", "SuccessCriteriaMet", "Suspended"])
def test_a_job_that_is_about_to_finish_has_not_ended(condition: str) -> None:
    assert seen(live_job(condition=condition)).doing is Doing.WAITING


@pytest.mark.parametrize("reason", ["InvalidImageName", "ErrImageNeverPull"])
def test_a_pod_that_can_never_start_is_stuck(reason: str) -> None:
    observation = seen(live_job(), live_pod(waiting(reason)))
    assert (observation.doing, observation.pod_uid) == (Doing.STUCK, "pod-a")


RAN = Before(is_running=True, pod_uid="pod-a")


def test_a_disrupted_pod_whose_container_ended_was_taken() -> None:
    pod = live_pod(terminated(137), phase="Running", conditions=[DISRUPTED])
    assert seen(live_job(), pod, before=RAN) == TAKEN


def test_a_disrupted_pod_whose_container_still_runs_is_running() -> None:
    pod = live_pod(running(at(5)), phase="Running", age=9, conditions=[DISRUPTED])
    assert seen(live_job(), pod, before=RAN).doing is Doing.RUNNING


def test_a_disrupted_pod_that_is_terminal_was_taken() -> None:
    assert seen(live_job(), ends=(DISRUPTED_END,), before=RAN) == TAKEN


def test_a_pod_that_succeeded_while_it_was_evicted_was_not_taken() -> None:
    pod = live_pod(terminated(0), phase="Succeeded", conditions=[DISRUPTED])
    assert not PodEnd.of_pod(pod).is_disrupted


def test_a_pod_that_ended_by_itself_is_ending_until_the_jobs_condition_follows() -> None:
    end = PodEnd("pod-a", "a", JOB_UID, exit_code=1, started_at=STARTED)
    for quiet in (0, REPLACEMENT_SECONDS, 10_000):
        assert seen(live_job(), ends=(end,), before=RAN, quiet=quiet).doing is Doing.ENDING
    held = live_pod(terminated(1), phase="Running")
    assert seen(live_job(), held, before=RAN, quiet=10_000).doing is Doing.ENDING


def test_a_pod_that_vanished_was_taken_once_another_one_came() -> None:
    new = live_pod(uid="pod-b", node=None)
    assert seen(live_job(), new, before=RAN) == TAKEN


def test_a_pod_that_vanished_was_taken_after_a_while_without_another_one() -> None:
    for ends in ((), (PodEnd("pod-a", "a", JOB_UID, started_at=STARTED),)):
        assert (
            seen(live_job(), before=RAN, ends=ends, quiet=REPLACEMENT_SECONDS - 1).doing
            is Doing.ENDING
        )
        taken = seen(live_job(), before=RAN, ends=ends, quiet=REPLACEMENT_SECONDS)
        assert taken == TAKEN


def test_a_pod_that_runs_already_in_place_of_another_one_is_reported_after_that_one_was() -> None:
    new = live_pod(running(at(1)), uid="pod-b", phase="Running", age=2)
    assert seen(live_job(), new, before=RAN) == TAKEN
    assert seen(live_job(), new).doing is Doing.RUNNING


def test_a_job_that_a_queue_suspended_waits_however_its_pod_ended() -> None:
    end = PodEnd.of_pod(live_pod(terminated(137), phase="Failed"))
    assert waits(seen(live_job(spec={"suspend": True}), ends=(end,))) == (Reason.QUEUED, False)


def test_the_pod_of_a_job_that_a_queue_suspended_was_taken() -> None:
    end = PodEnd("pod-a", "a", JOB_UID, exit_code=143, started_at=STARTED)
    suspended = live_job(spec={"suspend": True})
    assert seen(suspended, ends=(end,), before=RAN) == TAKEN


def test_the_pod_of_a_job_that_may_have_none_was_taken() -> None:
    """Its controller does not count a Pod that it removes itself, so no condition follows."""
    end = PodEnd("pod-a", "a", JOB_UID, exit_code=143, started_at=STARTED)
    for parallelism, doing in ((0, Doing.TAKEN), (1, Doing.ENDING)):
        job = live_job(spec={"parallelism": parallelism})
        assert seen(job, ends=(end,), before=RAN).doing is doing


def test_of_a_pod_that_is_not_known_the_remembered_end_names_it() -> None:
    taken = seen(live_job(), ends=(DISRUPTED_END,), before=Before(is_running=True))
    assert taken == TAKEN
    unknown = seen(live_job(), live_pod(uid="pod-b"), before=Before(is_running=True))
    assert unknown == Observation(Doing.TAKEN)


def test_after_it_was_taken_the_launch_waits_for_its_next_pod() -> None:
    assert waits(seen(live_job(age=100), ends=(DISRUPTED_END,))) == (Reason.JOB_CREATED, False)
    quota = event("FailedCreate", "exceeded quota: pods")
    assert waits(seen(live_job(age=100), ends=(DISRUPTED_END,), events=(quota,))) == (
        Reason.QUOTA_EXCEEDED,
        True,
    )


def test_a_container_that_ended_before_it_was_seen_running_is_ending() -> None:
    assert seen(live_job(), live_pod(terminated(0), phase="Running")).doing is Doing.ENDING
    end = PodEnd("pod-a", "a", JOB_UID, exit_code=1, started_at=STARTED)
    assert seen(live_job(), ends=(end,)).doing is Doing.ENDING


def held(code: int, *, uid: str = "pod-a", **metadata: Any) -> Json:  # Any: JSON
    """A Pod in which another container runs on after `inference` has ended."""
    pod = live_pod(terminated(code), uid=uid, phase="Running", **metadata)
    pod["status"]["containerStatuses"].insert(0, {"name": "proxy", "state": running(at(900))})
    return pod


@pytest.mark.parametrize("code", [0, 3])
@pytest.mark.parametrize("before", [Before(), Before(is_running=True, pod_uid="pod-a")])
def test_a_launch_needs_a_judgement_when_its_container_has_ended_and_another_one_runs_on(
    code: int, before: Before
) -> None:
    found = seen(live_job(), held(code), before=before)
    assert (found.doing, found.pod_uid) == (Doing.STUCK, "pod-a")


def test_a_pod_that_ends_by_itself_needs_no_judgement_before() -> None:
    native = live_pod(terminated(3), phase="Running")
    native["status"]["initContainerStatuses"] = [{"name": "proxy", "state": running(at(900))}]
    for pod in (native, held(3, deletionTimestamp=at(0))):
        assert seen(live_job(), pod).doing is Doing.ENDING


def test_of_several_shards_a_success_or_the_end_of_the_last_one_needs_a_judgement() -> None:
    job = live_job(spec={"completions": 2})
    busy = live_pod(running(at(300)), uid="pod-b", phase="Running")
    assert seen(job, held(3), busy).doing is Doing.RUNNING
    assert seen(job, held(0), busy).doing is Doing.STUCK
    assert seen(job, held(3), held(3, uid="pod-b")).doing is Doing.STUCK
    job["status"]["failedIndexes"] = "1"
    assert seen(job, held(3)).doing is Doing.STUCK


def test_a_job_that_is_gone_has_a_pod_that_may_run_as_long_as_another_container_of_it_runs() -> (
    None
):
    ending = held(3, deletionTimestamp=at(0))
    assert observe_absent([ending]) is None
    ending["status"]["containerStatuses"][0]["state"] = terminated(143)
    assert observe_absent([ending]) is not None


def test_a_pod_whose_container_has_ended_does_not_hide_that_its_job_is_gone() -> None:
    """A finalizer, or a kubelet that has not reported the phase yet, keeps the object, but not the
    container."""
    pod = live_pod(terminated(137), phase="Running", deletionTimestamp=at(9))
    assert observe_absent([pod]) == Observation(Doing.GONE)


@pytest.mark.parametrize(
    ("run", "is_so"),
    [
        (None, True),
        (live_run(phase="Failed", reason="Cancelled"), True),
        (live_run(job_uid="job-2", job_name=job_name(JOB_NAME, 2)), True),
        (live_run(), False),
        (live_run(job_uid=None), False),
    ],
)
def test_a_job_is_left_over_once_its_run_has_ended_or_is_past_it(
    run: Json | None,
    is_so: bool,  # noqa: FBT001
) -> None:
    assert is_launch_left_over(run, launch=LAUNCH) is is_so
    other = replace(LAUNCH, job_name=f"{JOB_NAME}-other")
    assert not is_launch_left_over(run, launch=other), "we do not create Jobs of that name"


def test_a_job_that_is_gone_is_gone_once_no_pod_of_it_may_run() -> None:
    assert observe_absent(()) == Observation(Doing.GONE)
    assert observe_absent([live_pod(running(STARTED), phase="Running")]) is None
    assert observe_absent([live_pod(waiting("ContainerCreating"), deletionTimestamp=at(0))]) is None
    assert observe_absent([live_pod(phase="Failed"), live_pod(phase="Succeeded")]) == Observation(
        Doing.GONE
    )


def test_a_pod_that_was_deleted_before_it_had_a_node_never_runs() -> None:
    """Also if a finalizer keeps its object: the scheduler ignores Pods that are being deleted."""
    assert not may_run(live_pod(node=None, deletionTimestamp=at(0)))
    assert may_run(live_pod(node=None))


def test_events_are_read_of_what_its_status_does_not_explain() -> None:
    job = live_job()
    assert event_subject(job, ()) is job
    assert event_subject(live_job(spec={"suspend": True}), ()) is None
    prepared = live_pod(waiting("ContainerCreating"))
    assert event_subject(job, (prepared,)) is prepared
    assert event_subject(job, (live_pod(node=None, conditions=[UNSCHEDULED]),)) is None
    assert event_subject(job, (live_pod(running(STARTED)),)) is None


def test_a_launch_is_read_from_its_job() -> None:
    launch = Launch.of_job(live_job(clock=30, launch=3, is_builtin=True))
    assert launch == Launch(RUN, JOB_NAME, JOB_UID, launch=3, attempt=1, is_builtin=True)
    assert launch is not None
    assert running_message(launch, "pod") == "attempt 1 is running in Pod pod"


@pytest.mark.parametrize(
    "owners", [[], [{"uid": "another", "controller": True}], [{"uid": RUN.uid}]]
)
def test_a_job_that_its_run_does_not_own_is_no_launch(owners: list[Json]) -> None:
    job = live_job()
    job["metadata"]["ownerReferences"] = owners
    assert Launch.of_job(job) is None


def test_the_launch_of_a_job_that_is_gone_is_read_from_the_status() -> None:
    launch = Launch.of_run(live_run(job_name=job_name(JOB_NAME, 12)))
    assert launch is not None
    assert (launch.launch, launch.job_uid, launch.run) == (12, JOB_UID, RUN)
    assert Launch.of_run(live_run(job_uid=None)) is None


@pytest.mark.parametrize(
    ("run", "launch"), list(product(("iris", "iris-7", "a" * 200, "My.Run..v2"), (1, 2, 10, 12345)))
)
def test_the_number_of_a_launch_is_read_from_the_name_of_its_job(run: str, launch: int) -> None:
    ref = RUN.model_copy(update={"name": run})
    assert launch_number(job_name(job_base_name(run, RUN.uid), launch), run=ref) == launch


@pytest.mark.parametrize(
    ("run", "is_so"),
    [
        (None, True),
        (live_run(), False),
        (live_run(job_uid="another"), True),
        (live_run(reason="RetryBackoff"), True),
        (live_run(reason="QuotaExceeded", endedLaunches=1), True),
        (live_run(reason="QuotaExceeded", endedLaunches=0), False),
        (live_run(phase="Suspended", reason="Suspended"), True),
        (live_run(phase="Running", reason="Running"), False),
    ],
)
def test_the_end_of_a_job_that_is_gone_is_acknowledged_by_the_runs_status(
    run: Json | None,
    is_so: bool,  # noqa: FBT001
) -> None:
    assert is_concluded(run, launch=LAUNCH) is is_so


@pytest.mark.parametrize("last", ["²", "٣", "9" * 5000])
def test_a_name_with_odd_digits_is_not_one_of_ours(last: str) -> None:
    assert launch_number(f"{JOB_NAME}-{last}", run=RUN) == 1


def test_a_job_that_verifies_an_earlier_launch_is_not_superseded() -> None:
    job = live_job()
    job["metadata"]["annotations"][wellknown.ANNOTATION_RUNNER] = wellknown.RUNNER_VERIFY
    verifying = Launch.of_job(job)
    assert verifying is not None
    later = live_run(job_uid="job-uid-3", job_name=job_name(JOB_NAME, 3))
    assert not is_superseded(later, launch=verifying)


def test_a_launch_is_superseded_by_a_later_one_only() -> None:
    second = Launch.of_job(live_job(launch=2, name=job_name(JOB_NAME, 2), uid="job-uid-2"))
    assert second is not None
    assert not is_superseded(live_run(), launch=second)
    assert is_superseded(
        live_run(job_uid="job-uid-3", job_name=job_name(JOB_NAME, 3)), launch=second
    )
    assert not is_superseded(
        live_run(job_uid="job-uid-2", job_name=job_name(JOB_NAME, 2)), launch=second
    )
    assert not is_superseded(live_run(job_uid=None), launch=second)


STATES: tuple[Json | None, ...] = (
    None,
    waiting("ContainerCreating"),
    waiting("ImagePullBackOff"),
    waiting("InvalidImageName"),
    running(at(5)),
    running(at(-500)),
    terminated(0),
    terminated(137),
)


def _pods() -> list[tuple[Json, ...]]:
    ones = [
        live_pod(state, phase=phase, conditions=conditions, node=node)
        for state, phase, conditions, node in product(
            STATES, ("Pending", "Running"), ([], [DISRUPTED], [UNSCHEDULED]), (None, "node-1")
        )
    ]
    pairs = [(one, live_pod(state, uid="pod-b", age=-1)) for one in ones for state in STATES]
    return [(), *((one,) for one in ones), *pairs]


def test_any_combination_of_job_and_pods_gives_a_legal_observation() -> None:
    """Trimmed and untrimmed objects agree, a start is never in the future, and only a launch that
    ran is taken."""
    befores = (Before(), RAN, Before(is_running=True), Before(is_running=True, pod_uid="pod-c"))
    lost = PodEnd("pod-a", "a", JOB_UID, started_at=STARTED)
    for pods, before, quiet, ends in product(_pods(), befores, (0.0, 60.0), ((), (lost,))):
        observation = seen(live_job(), *pods, before=before, quiet=quiet, ends=ends)
        assert (observation.wait is not None) == (observation.doing is Doing.WAITING)
        assert observation.doing is not Doing.TAKEN or before.is_running
        assert bool(observation.started_at) == (observation.doing is Doing.RUNNING)
        assert observation.started_at <= at(-1)
        assert observation.doing not in (Doing.ENDED, Doing.GONE)


def test_a_launch_that_ran_never_waits_before_its_pod_was_reported_as_taken() -> None:
    for pods, quiet in product(_pods(), (0.0, 60.0)):
        assert seen(live_job(), *pods, before=RAN, quiet=quiet).doing is not Doing.WAITING


def test_what_needs_a_judgement_is_what_the_workflow_has_to_decide() -> None:
    assert {doing for doing in Doing if doing.needs_judgement} == {
        Doing.TAKEN,
        Doing.STUCK,
        Doing.ENDED,
        Doing.GONE,
    }


SHARDS = live_job(spec={"completions": 3})


def test_a_launch_of_several_shards_runs_as_long_as_one_of_its_pods_does() -> None:
    first = live_pod(running(at(50)), uid="pod-a", phase="Running", age=60)
    second = live_pod(running(at(40)), uid="pod-b", phase="Running", age=60)
    waits_for_a_node = live_pod(uid="pod-c", conditions=[UNSCHEDULED], age=10)
    before = Before(is_running=True, pod_uid="pod-b")
    found = seen(SHARDS, first, second, waits_for_a_node)
    assert (found.doing, found.pod_uid, found.started_at) == (Doing.RUNNING, "pod-a", at(50))
    assert seen(SHARDS, first, second, before=before).pod_uid == "pod-b"
    killed = PodEnd.of_pod(live_pod({"terminated": {"exitCode": 137}}, uid="pod-b", phase="Failed"))
    found = seen(SHARDS, first, waits_for_a_node, ends=(killed,), before=before)
    assert (found.doing, found.pod_uid) == (Doing.RUNNING, "pod-a")
    assert seen(SHARDS, waits_for_a_node, ends=(killed,), before=before).doing is Doing.TAKEN
    assert seen(SHARDS, ends=(killed,), before=before).doing is Doing.ENDING


def test_the_message_of_several_shards_is_the_same_whichever_pod_stands_for_them() -> None:
    launch = Launch.of_job(SHARDS)
    assert launch is not None
    assert running_message(launch, "one") == running_message(launch, "two")
    assert "3 Pods of Job" in running_message(launch, "one")
