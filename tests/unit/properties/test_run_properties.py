"""Any order of ends of launches, lost Pods, edits, suspensions and continuations leaves a run in a legal state."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from inferrun.reasons import Phase
from inferrun.resources.status import ATTEMPTS_LIMIT
from inferrun.timestamps import rfc3339
from tests.unit.objects import RUN
from tests.unit.properties.strategies import BEGIN, PROPERTY, verdicts
from workflows.messages import LaunchResult, LaunchState, RunInput, SpecChanged, Verdict, VerdictKind
from workflows.retry_policy import MAX_BACKOFF, StepKind, next_step
from workflows.run_clock import is_expired
from workflows.run_state import RunState

UNCOUNTED = (VerdictKind.NEVER_RAN, VerdictKind.SUSPENDED, VerdictKind.OUT_OF_TIME, VerdictKind.NODE_LOST)
SECONDS_LEFT = st.none() | st.floats(-1000, 100_000)

EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.integers(0, 100)),
        st.tuples(st.just("lose"), st.booleans()),
        st.tuples(st.just("edit"), st.integers(0, 10_000)),
        st.tuples(st.just("suspend"), st.booleans()),
        st.tuples(st.just("continue"), st.booleans()),
        st.tuples(st.just("end"), verdicts()),
    ),
    max_size=60,
)


@given(verdict=verdicts(), attempt=st.integers(1, 50), limit=st.integers(0, 20), left=SECONDS_LEFT)
@PROPERTY
def test_a_step_keeps_to_the_limits_of_the_run(verdict: Verdict, attempt: int, limit: int, left: float | None) -> None:
    step = next_step(verdict, attempt=attempt, backoff_limit=limit, seconds_left=left)
    assert (step.kind is StepKind.SUCCEED) == (verdict.kind is VerdictKind.SUCCEEDED)
    assert 0 <= step.delay <= MAX_BACKOFF
    if step.kind is not StepKind.LAUNCH:
        return
    assert step.counted == (verdict.kind not in UNCOUNTED)
    if step.counted:
        assert verdict.may_retry
        assert attempt <= limit
    if verdict.kind not in (VerdictKind.NEVER_RAN, VerdictKind.SUSPENDED, VerdictKind.NODE_LOST):
        assert not is_expired(left)


def launched(state: RunState) -> LaunchResult:
    """What the launch activity answers."""
    request = state.begin_launch()
    name = f"inf-iris-{request.launch}"
    result = LaunchResult(
        state=LaunchState.LAUNCHED,
        job_name=name,
        job_uid=f"uid-{name}",
        timeout_seconds=600,
        **request.progress.model_dump(),
    )
    state.accept_launch(result)
    return result


@given(events=EVENTS, limit=st.integers(0, 5))
@PROPERTY
def test_any_order_of_events_leaves_a_legal_state(events: list[tuple[str, object]], limit: int) -> None:
    state, now = RunState(RunInput(**RUN.model_dump(), lifecycle=2)), BEGIN
    job, jobs, used = launched(state), 1, 0.0
    for kind, value in events:
        now += timedelta(seconds=30)
        if kind == "start" and isinstance(value, int):
            state.started_at = rfc3339(now - timedelta(seconds=value))
        elif kind == "lose":
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
            state = RunState(RunInput.model_validate_json(state.continued(following=job).model_dump_json()))
            following = state.take_following()
            assert following is not None
            assert (following.job_uid, following.is_adopted) == (job.job_uid, True)
            assert state.running_seconds_left(now=now) == before.running_seconds_left(now=now)
            assert (state.is_suspended, state.progress) == (before.is_suspended, before.progress)
        elif isinstance(value, Verdict):
            verdict = state.finish_launch(value, now=now)
            left = state.running_seconds_left(now=now)
            step = next_step(verdict, attempt=state.progress.attempt, backoff_limit=limit, seconds_left=left)
            state.add_attempt(job, verdict, step.reason)
            if step.kind is not StepKind.LAUNCH:
                is_success = step.kind is StepKind.SUCCEED
                outcome = state.outcome(verdict, Phase.SUCCEEDED if is_success else Phase.FAILED, step.reason)
                assert outcome.phase.is_terminal
                assert (outcome.phase is Phase.SUCCEEDED) == (verdict.kind is VerdictKind.SUCCEEDED)
                return
            state.next_launch(is_counted=step.counted, has_waited=verdict.kind is VerdictKind.NEVER_RAN)
            job, jobs = launched(state), jobs + 1
        progress = state.progress
        assert progress.launch == jobs, "a Job name is never used twice"
        assert 1 <= progress.attempt <= min(progress.launch, limit + 1)
        assert progress.seconds_used >= used, "time that was used stays used"
        used = progress.seconds_used
        assert len(progress.attempts) <= ATTEMPTS_LIMIT
        numbers = [item.launch for item in progress.attempts]
        assert numbers == sorted(numbers)
