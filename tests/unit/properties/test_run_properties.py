"""Any order of ends of launches, lost Pods, edits, suspensions and continuations leaves a run in a
legal state."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from control.launches.launch_results import resume
from inferrun.launches.retry_policy import BACKOFF, StepKind, next_step
from inferrun.launches.run_clock import is_expired
from inferrun.launches.verdict import Verdict, VerdictKind
from inferrun.reasons import Phase
from inferrun.resources.status import ATTEMPTS_LIMIT
from inferrun.timestamps import rfc3339
from tests.unit.objects import RUN, run
from tests.unit.properties.strategies import BEGIN, PROPERTY, verdicts
from workflows.messages import (
    LaunchInput,
    LaunchReport,
    LaunchResult,
    LaunchStage,
    LaunchState,
    RunInput,
    SpecChanged,
)
from workflows.run_state import RunState

BLOCKED = {"launched": None, "waits": LaunchState.WAITING}
"""What a workflow meets that replaces a lost one."""

DISRUPTIONS = [kind for kind in VerdictKind if kind.is_disruption]
UNCOUNTED = (VerdictKind.NEVER_RAN, VerdictKind.SUSPENDED, VerdictKind.OUT_OF_TIME, *DISRUPTIONS)
SECONDS_LEFT = st.none() | st.floats(-1000, 100_000)

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.integers(0, 100)),
        st.tuples(st.just("lose"), st.booleans()),
        st.tuples(st.just("edit"), st.integers(0, 10_000)),
        st.tuples(st.just("suspend"), st.booleans()),
        st.tuples(st.just("continue"), st.booleans()),
        st.tuples(st.just("forget"), st.sampled_from(list(BLOCKED))),
        st.tuples(st.just("end"), verdicts()),
    ),
    max_size=60,
)


@given(verdict=verdicts(), attempt=st.integers(1, 50), limit=st.integers(0, 20), left=SECONDS_LEFT)
@PROPERTY
def test_a_step_keeps_to_the_limits_of_the_run(
    verdict: Verdict, attempt: int, limit: int, left: float | None
) -> None:
    step = next_step(verdict, attempt=attempt, backoff_limit=limit, seconds_left=left)
    assert (step.kind is StepKind.SUCCEED) == (verdict.kind is VerdictKind.SUCCEEDED)
    assert 0 <= step.delay <= BACKOFF.longest
    if step.kind is not StepKind.LAUNCH:
        return
    assert step.counted == (verdict.kind not in UNCOUNTED)
    if step.counted:
        assert verdict.may_retry
        assert attempt <= limit
    if verdict.kind not in (VerdictKind.NEVER_RAN, VerdictKind.SUSPENDED, VerdictKind.NODE_LOST):
        assert not is_expired(left)


def launched(state: RunState, *, request: LaunchInput | None = None) -> LaunchResult:
    """What the launch activity answers; `request` is what it made of the one that it got."""
    request = request or state.begin_launch()
    name = f"inf-iris-{request.launch}"
    result = LaunchResult(
        state=LaunchState.LAUNCHED,
        job_name=name,
        job_uid=f"uid-{name}",
        timeout_seconds=600,
        **dict(request.progress),
    )
    state.accept_launch(result)
    return result


def forgotten(state: RunState, *, blocked: LaunchState | None) -> tuple[RunState, LaunchResult]:
    """Temporal has forgotten the run: a new workflow begins with what the status says, and may have
    to wait before it can go on."""
    progress, new = state.progress, RunState(RunInput(**RUN.model_dump(), lifecycle=2))
    status = {name: value for name, value in progress.shown.items() if value is not None}
    request = resume(new.begin_launch(), run(status=status))
    if blocked is not None:
        new.accept_launch(LaunchResult(state=blocked, **dict(request.progress)))
        assert (new.progress.launch, new.progress.attempts) == (progress.launch, progress.attempts)
        request = resume(new.begin_launch(), run(status=status))
    return new, launched(new, request=request)


@given(events=EVENTS, limit=st.integers(0, 5))
@PROPERTY
def test_any_order_of_events_leaves_a_legal_state(
    events: list[tuple[str, object]], limit: int
) -> None:
    state, now = RunState(RunInput(**RUN.model_dump(), lifecycle=2)), BEGIN
    job, jobs, used = launched(state), 1, 0.0
    for kind, value in events:
        now += timedelta(seconds=30)
        if kind == "start" and isinstance(value, int):
            state.started_at = rfc3339(now - timedelta(seconds=value))
        elif kind == "lose":
            if state.started_at is not None:
                lost = LaunchReport(stage=LaunchStage.POD_LOST, started_at=state.started_at)
                state.add_replaced_pod(job, lost, lost_at=rfc3339(now))
            state.lose_pod(is_disrupted=bool(value), now=now)
            assert state.started_at is None
        elif kind == "edit" and isinstance(value, int):
            state.edit_spec(SpecChanged(timeout_seconds=value, suspend=state.is_suspended))
            assert state.timeout_seconds == value
        elif kind == "suspend":
            state.edit_spec(SpecChanged(timeout_seconds=state.timeout_seconds, suspend=bool(value)))
            assert state.is_suspended is bool(value)
        elif kind == "continue":
            before = state
            state = RunState(
                RunInput.model_validate_json(state.continued(following=job).model_dump_json())
            )
            following = state.take_following()
            assert following is not None
            assert (following.job_uid, following.is_adopted) == (job.job_uid, True)
            assert state.running_seconds_left(now=now) == before.running_seconds_left(now=now)
            assert (state.is_suspended, state.progress) == (before.is_suspended, before.progress)
        elif kind == "forget" and len(state.progress.attempts) < ATTEMPTS_LIMIT:
            known, started_at = state.progress, state.started_at
            state, job = forgotten(state, blocked=BLOCKED[str(value)])
            state.started_at = started_at  # as the Pod says
            found = state.progress
            assert (found.launch, found.attempt, found.attempts) == (
                known.launch,
                known.attempt,
                known.attempts,
            )
            assert found.seconds_used == known.seconds_used
            assert (found.uncounted, found.committed) == (known.uncounted, known.committed)
        elif isinstance(value, Verdict):
            verdict = state.finish_launch(value, now=now)
            left = state.running_seconds_left(now=now)
            step = next_step(
                verdict, attempt=state.progress.attempt, backoff_limit=limit, seconds_left=left
            )
            state.add_attempt(job, verdict, step.reason)
            if step.kind is not StepKind.LAUNCH:
                is_success = step.kind is StepKind.SUCCEED
                outcome = state.outcome(
                    verdict, Phase.SUCCEEDED if is_success else Phase.FAILED, step.reason
                )
                assert outcome.phase.is_terminal
                assert (outcome.phase is Phase.SUCCEEDED) == (verdict.kind is VerdictKind.SUCCEEDED)
                return
            state.next_launch(
                is_counted=step.counted, has_waited=verdict.kind is VerdictKind.NEVER_RAN
            )
            job, jobs = launched(state), jobs + 1
        progress = state.progress
        assert progress.launch == jobs, "a Job name is never used twice"
        assert 1 <= progress.attempt <= min(progress.launch, limit + 1)
        assert progress.seconds_used >= used, "time that was used stays used"
        used = progress.seconds_used
        assert len(progress.attempts) <= ATTEMPTS_LIMIT
        numbers = [item.launch for item in progress.attempts]
        assert numbers == sorted(numbers)
