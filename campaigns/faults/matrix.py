"""The matrix: every call of every scenario, with every fault, and whether each case ended in the
state without the fault.

Pairs of faults are sampled from the same scenarios, calls and faults: the second happens after the
first.
"""

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from temporalio.service import RPCError

from campaigns.faults.calls import CALLS, NOT_PLAYED
from campaigns.faults.final_state import State, cluster_state, final_state
from campaigns.faults.injection import ANY, BLIND_SECONDS, DELAY_SECONDS, SKEW_SECONDS, Fault, Plan
from campaigns.faults.pauses import PAUSED_SECONDS, resume_workflows
from campaigns.faults.scenarios import PATIENCE_SECONDS, SCENARIOS, Scenario, Stage, behaviour_of
from campaigns.faults.world import RESYNC_SECONDS, Installation, NotInTime, World, world
from inferrun.kube.errors import KubeError
from tools.devcluster import binaries

FAULTS = tuple(fault for fault in Fault if fault is not Fault.HOLD)

SETTLED_SECONDS = 2.0
"""How long the final state must last."""

UNMARKED_SECONDS = 30.0
"""The same for a state with Jobs that are not marked yet."""

POLL_SECONDS = 1.5

LATE_SECONDS = {
    fault: 5 + seconds
    for fault, seconds in (
        (Fault.DELAY, DELAY_SECONDS),
        (Fault.WATCH_LOST, BLIND_SECONDS),
        (Fault.HISTORY_LOST, RESYNC_SECONDS),
        (Fault.CLOCK_AHEAD, SKEW_SECONDS),
        (Fault.CLOCK_BEHIND, SKEW_SECONDS),
        (Fault.PAUSED, PAUSED_SECONDS),
    )
}
"""After these faults, how long to wait for a late effect before the final state counts."""

Call = tuple[str, str]
"""Where a call is made, and what it does."""


@dataclass(frozen=True)
class Case:
    """One scenario with one fault, or without."""

    number: int
    scenario: str
    call: Call | None = None
    fault: Fault | None = None
    aims_at_any: bool = False
    first: tuple[Call, Fault] | None = None
    """The call and the fault that must have happened before, if this is a pair."""

    @property
    def token(self) -> str:
        """Part of the names of everything that belongs to it."""
        return f"c{self.number:05d}q"

    @property
    def plans(self) -> list[Plan]:
        """The faults to inject."""
        if self.call is None or self.fault is None:
            return []
        token = ANY if self.aims_at_any else self.token
        if self.first is None:
            return [Plan(token, *self.call, self.fault, number=self.number)]
        first = Plan(token, *self.first[0], self.first[1])
        return [
            first,
            Plan(token, *self.call, self.fault, number=self.number, after=first.file_name),
        ]

    def __str__(self) -> str:
        if self.call is None:
            return f"{self.token} {self.scenario}"
        second = f"{self.fault} at {self.call[1]} by {self.call[0]}"
        if self.first is None:
            return f"{self.token} {self.scenario}: {second}"
        (site, does), fault = self.first
        return f"{self.token} {self.scenario}: {fault} at {does} by {site}, then {second}"


@dataclass(frozen=True)
class Result:
    """How a case ended. `problem` is empty if it ended in the expected state."""

    case: Case
    state: State
    seconds: float
    problem: str = ""
    is_reached: bool = True
    """Whether the fault happened: some calls depend on timing."""


EXPECTED_ENDS = (-signal.SIGKILL, 0, -signal.SIGTERM)
"""Exit codes after a crash that was injected, and after a scenario's SIGTERM; the last one if a
process was starting."""


@dataclass
class Matrix:
    """The cases of one execution, and their results."""

    seed: int
    baseline: dict[str, State] = field(default_factory=dict)
    calls: dict[str, list[Call]] = field(default_factory=dict)
    """Of each scenario, in the order in which they are first made."""
    results: list[Result] = field(default_factory=list)
    restarts: int = 0
    unexpected_ends: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def observed(self) -> set[Call]:
        """All calls that were made without faults."""
        return set().union(*self.calls.values())

    @property
    def unlisted(self) -> set[Call]:
        """Calls that were made and are not listed."""
        return self.observed - CALLS

    @property
    def unobserved(self) -> set[Call]:
        """Calls that are listed and were not made."""
        return set(CALLS - NOT_PLAYED - self.observed)

    @property
    def problems(self) -> list[Result]:
        """The cases that ended in another state."""
        return [result for result in self.results if result.problem]

    @property
    def unreached(self) -> list[Result]:
        """The cases whose fault did not happen."""
        return [result for result in self.results if not result.is_reached]


@dataclass(frozen=True)
class Options:
    """What to execute; `sample` limits the number of cases, `only` the scenarios, `without` the
    faults."""

    folder: Path
    seed: int = 1
    per_call: int = 1
    """In how many scenarios each fault hits each call; which ones depends on the seed."""
    installations: int = 3
    at_a_time: int = 8
    sample: int | None = None
    pairs: int = 0
    """Number of pairs of faults to play, instead of single ones."""
    only: tuple[str, ...] = ()
    without: tuple[Fault, ...] = ()
    collector: str = ""
    """Address of a collector that gets traces; empty: none."""
    report: Callable[[str], None] = print


async def execute(options: Options) -> Matrix:
    """Play each scenario without faults, then with each fault."""
    matrix = Matrix(options.seed)
    started = time.monotonic()
    scenarios = [one for name, one in SCENARIOS.items() if not options.only or name in options.only]
    async with (
        world(options.folder, behave=behaviour_of) as ground,
        _installed(ground, options) as installations,
    ):
        await _play_baseline(matrix, ground, installations[0], scenarios, report=options.report)
        cases = (
            _pairs(matrix, options.pairs)
            if options.pairs
            else _cases(matrix, scenarios, per_call=options.per_call)
        )
        without = {
            *options.without,
            *({Fault.PAUSED} if binaries.missing((binaries.TEMPORAL_NEXT,)) else ()),
        }
        cases = [case for case in cases if without.isdisjoint(plan.fault for plan in case.plans)]
        chosen = random.Random(options.seed).sample(  # noqa: S311
            cases, min(options.sample or len(cases), len(cases))
        )
        options.report(f"{len(cases)} cases, of which {len(chosen)} are executed")
        await _play_all(matrix, ground, installations, chosen, options)
        for installation in installations:
            for program in installation.programs:
                matrix.restarts += len(program.ends)
                unexpected = [code for code in program.ends if code not in EXPECTED_ENDS]
                matrix.unexpected_ends += [f"{program.name}: {code}" for code in unexpected]
    matrix.seconds = time.monotonic() - started
    return matrix


@asynccontextmanager
async def _installed(ground: World, options: Options) -> AsyncIterator[list[Installation]]:
    async with AsyncExitStack() as stack:
        names = [f"faults-{number}" for number in range(options.installations)]
        yield [
            await stack.enter_async_context(
                ground.installation(name, OTEL_EXPORTER_OTLP_ENDPOINT=options.collector)
            )
            for name in names
        ]


async def _play_baseline(
    matrix: Matrix,
    ground: World,
    installation: Installation,
    scenarios: Sequence[Scenario],
    *,
    report: Callable[[str], None],
) -> None:
    """Scenarios that restart processes are played alone, last, because calls of other scenarios
    would be disturbed."""

    async def play(number: int, scenario: Scenario) -> None:
        case = Case(number, scenario.name)
        result = await _play(case, ground, installation, expected=None)
        if result.problem:
            raise NotInTime(f"without faults: {case}: {result.problem}")
        matrix.baseline[scenario.name] = result.state
        matrix.calls[scenario.name] = _calls_of(installation, case.token)
        if scenario.aims_at_any:
            matrix.calls[scenario.name] += _calls_of(installation, ANY)
        report(f"{result.seconds:6.1f} s {scenario.name}: {len(matrix.calls[scenario.name])} calls")

    quiet = [one for one in scenarios if not (one.aims_at_any or one.name == "leftover")]
    async with asyncio.TaskGroup() as tasks:
        for number, scenario in enumerate(quiet):
            tasks.create_task(play(number, scenario))
    for number, scenario in enumerate(
        (one for one in scenarios if one not in quiet), start=len(quiet)
    ):
        await play(number, scenario)


def _calls_of(installation: Installation, token: str) -> list[Call]:
    return [(site, does) for found, site, does in installation.faults.calls() if found == token]


TIMED = {"operator_shim.run_loop:RunLoop._accept": "accepted"}
"""Calls that depend on timing, and the scenario that makes them for certain."""


def _cases(matrix: Matrix, scenarios: Sequence[Scenario], *, per_call: int) -> list[Case]:
    """Every call with every fault, in so many of the scenarios that make the call, preferably core
    ones."""
    dice = random.Random(matrix.seed)  # noqa: S311 -- an execution can be repeated
    cases: list[Case] = []
    for call in sorted(matrix.observed):
        makers = [
            one
            for one in scenarios
            if call in matrix.calls[one.name] and TIMED.get(call[0], one.name) == one.name
        ]
        if not makers:
            raise NotInTime(f"without faults: {TIMED[call[0]]!r} does not make {call}")
        makers = [one for one in makers if one.is_core] or makers
        for fault in FAULTS:
            if not is_plausible(call, fault):
                continue
            for scenario in dice.sample(makers, min(per_call, len(makers))):
                cases.append(
                    Case(1000 + len(cases), scenario.name, call, fault, _is_of_no_run(call))
                )
    return cases


def _pairs(matrix: Matrix, count: int) -> list[Case]:
    """A sample of pairs of faults in calls of one scenario, in the order of the calls."""
    dice = random.Random(matrix.seed)  # noqa: S311 -- an execution can be repeated
    faults = {
        scenario: [
            (call, fault)
            for call in calls
            for fault in FAULTS
            if is_plausible(call, fault) and not _is_of_no_run(call)
        ]
        for scenario, calls in sorted(matrix.calls.items())
    }
    weights = [len(one) ** 2 for one in faults.values()]
    cases = []
    for number, scenario in enumerate(dice.choices(list(faults), weights, k=count), start=1000):
        first, second = sorted(dice.sample(range(len(faults[scenario])), 2))
        cases.append(
            Case(number, scenario, *faults[scenario][second], first=faults[scenario][first])
        )
    return cases


def is_plausible(call: Call, fault: Fault) -> bool:
    """The API server answers 409 to a conditional write, or to a create that a quota is counted
    for; not to a deletion with a precondition, where it means that another object has the name.
    Only workflows of a case are paused.
    """
    if fault is Fault.PAUSED and _is_of_no_run(call):
        return False
    return fault is not Fault.CONFLICT or call[1].startswith(("create", "patch"))


def _is_of_no_run(call: Call) -> bool:
    return call[1].endswith(" leases") or call[1] == "add search attributes"


async def _play_all(
    matrix: Matrix,
    ground: World,
    installations: Sequence[Installation],
    cases: Iterable[Case],
    options: Options,
) -> None:
    """Each installation plays several cases at a time, in the order of the seed."""
    queue: asyncio.Queue[Case] = asyncio.Queue()
    # which impairs schedules, so comes last
    for case in sorted(cases, key=lambda case: case.scenario == "attributes"):
        queue.put_nowait(case)
    total = queue.qsize()

    async def work(installation: Installation, alone: asyncio.Lock) -> None:
        while not queue.empty():
            case = queue.get_nowait()
            expected = matrix.baseline[case.scenario]
            if case.aims_at_any or SCENARIOS[case.scenario].aims_at_any:
                async with alone:
                    result = await _play(case, ground, installation, expected=expected)
            else:
                result = await _play(case, ground, installation, expected=expected)
            matrix.results.append(result)
            verdict = result.problem or ("ok" if result.is_reached else "not reached")
            options.report(
                f"{len(matrix.results)}/{total} {result.seconds:6.1f} s {case}: {verdict}"
            )

    async with asyncio.TaskGroup() as tasks:
        for installation in installations:
            alone = asyncio.Lock()
            for _ in range(options.at_a_time):
                tasks.create_task(work(installation, alone))


async def _play(
    case: Case, ground: World, installation: Installation, *, expected: State | None
) -> Result:
    """Play a case and wait until it is in its final state; compared with `expected`, if given."""
    stage = Stage(ground, installation, case.token, case.scenario)
    started = time.monotonic()
    for plan in case.plans:
        installation.faults.plan(plan)
    problem, resuming = "", asyncio.create_task(_resume(case, stage))
    try:
        await SCENARIOS[case.scenario].play(stage)
    except (NotInTime, RPCError, KubeError) as error:
        problem = f"{type(error).__name__}: {error}"
    state, difference = await _settle(case, stage, expected=expected)
    resuming.cancel()
    is_reached = all(installation.faults.has_happened(plan) for plan in case.plans)
    for plan in case.plans:
        installation.faults.withdraw(plan)
    if expected is not None and problem and difference:
        problem = f"{problem}; {difference}"
    elif expected is not None:
        # a step that was late, on a busy machine, is not one that led to another state
        problem = difference
    return Result(case, state, time.monotonic() - started, problem or difference, is_reached)


async def _resume(case: Case, stage: Stage) -> None:
    """Resume what a fault has paused, after a while, and whatever is paused later."""
    pauses = [plan for plan in case.plans if plan.fault is Fault.PAUSED]
    while pauses:
        if all(stage.installation.faults.has_happened(plan) for plan in pauses):
            await asyncio.sleep(PAUSED_SECONDS)
            await resume_workflows(stage.world.temporal, case.token)
        await asyncio.sleep(POLL_SECONDS)


async def _settle(case: Case, stage: Stage, *, expected: State | None) -> tuple[State, str]:
    """The final state, and how it differs from the expected one; without one, the state that
    lasts."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE_SECONDS
    await asyncio.sleep(
        max((LATE_SECONDS.get(plan.fault, 0.0) for plan in case.plans), default=0.0)
    )
    last: State = {}
    since = loop.time()
    while True:
        state = await _state(stage, expected=expected)
        if expected is not None and any(plan.fault is Fault.HISTORY_LOST for plan in case.plans):
            state = _as_remembered(state, expected)
        if expected is not None and any(plan.fault is Fault.PAUSED for plan in case.plans):
            state = _as_resumed(state, expected)
        if state != last:
            last, since = state, loop.time()
        is_right = (
            not _differences(state, expected) if expected is not None else not _is_open(case, state)
        )
        lasted = loop.time() - since
        if is_right and lasted >= (SETTLED_SECONDS if expected is not None else _settles_in(state)):
            return state, ""
        if loop.time() > deadline:
            return state, _differences(
                state, expected
            ) if expected is not None else "it does not settle"
        await asyncio.sleep(POLL_SECONDS)


def _as_remembered(state: State, expected: State) -> State:
    """The state with the ends of the workflows that Temporal has forgotten since, if the others are
    as expected."""
    forgotten = [
        key
        for key in ("workflows", "clean-ups", "submissions")
        if key in state and _each_of(state[key]) <= _each_of(expected[key])
    ]
    return {**state, **{key: expected[key] for key in forgotten}}


def _as_resumed(state: State, expected: State) -> State:
    """The state with the ends of the paused workflows that were replaced or ended, because their
    run had to end or was gone, if the others are as expected.
    """
    ends = _each_of(one for one in state.get("workflows", ()))
    ended = ends.pop("TERMINATED", 0)
    return (
        {**state, "workflows": expected["workflows"]}
        if ended and ends <= _each_of(expected["workflows"])
        else state
    )


def _each_of(ends: Iterable[str]) -> Counter[str]:
    """The ends of single workflows; a run may have had several."""
    return Counter(one for end in ends for one in end.split(", ") if one)


def _settles_in(state: State) -> float:
    """Seconds: Jobs are marked behind the outcomes of other runs, and after their controller has
    finished them."""
    is_unmarked = "marked=False" in str(state["Jobs that exist"])
    return UNMARKED_SECONDS if is_unmarked else 3 * SETTLED_SECONDS


def _is_open(case: Case, state: State) -> bool:
    """Whether something is still going on: the garbage collector may take a while on a busy
    machine."""
    runs = state["runs that exist"]
    owned = (state["ConfigMaps that exist"], state["Jobs that exist"], state["Pods that exist"])
    is_collecting = state["Jobs without their run"] or (
        SCENARIOS[case.scenario].deletes if runs else any(owned)
    )
    return (
        bool(is_collecting)
        or "open" in str(state["workflows"])
        or "open" in str(state["clean-ups"])
    )


def _differences(state: State, expected: State | None) -> str:
    wanted = expected or {}
    return "; ".join(
        f"{key}: {state[key]} instead of {wanted.get(key)}"
        for key in state
        if state[key] != wanted.get(key)
    )


async def _state(stage: Stage, *, expected: State | None) -> State:
    """The state, without asking Temporal as long as the cluster shows that it is not the expected
    one."""
    ground = stage.world
    deletes = SCENARIOS[stage.scenario].deletes
    seen = cluster_state(stage.token, deletes=deletes, recorder=ground.recorder, node=ground.node)
    if expected is not None and any(expected.get(key) != value for key, value in seen.items()):
        return seen
    try:
        return await final_state(
            stage.token,
            deletes=deletes,
            submissions=tuple(stage.submissions),
            recorder=ground.recorder,
            node=ground.node,
            temporal=ground.temporal,
        )
    except RPCError as error:
        return {**seen, "workflows": [f"open: Temporal does not answer: {error}"], "clean-ups": []}
