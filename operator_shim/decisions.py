"""What to do about a run, from the run alone: pure, and the same whatever event led to the look.

An event only says "look again". The decision never rests on what happened, only on what is.
"""

from dataclasses import dataclass
from enum import StrEnum

from inferrun import wellknown
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceConfig, InferenceRun
from inferrun.resources.validation import config_problems, run_problems, told


class ActionKind(StrEnum):
    """What the shim does about a run."""

    NOTHING = "Nothing"
    REFUSE = "Refuse"
    START = "Start"
    CANCEL = "Cancel"
    SCHEDULE = "Schedule"
    LET_GO = "LetGo"
    RELEASE = "Release"


@dataclass(frozen=True)
class Action:
    """The kind, and for a refusal what the status is to say."""

    kind: ActionKind
    reason: Reason = Reason.ACCEPTED
    message: str = ""


NOTHING = Action(ActionKind.NOTHING)

_REASONS = {"spec.schedule": Reason.INVALID_SCHEDULE, "spec.timeZone": Reason.INVALID_TIME_ZONE}


def decide(run: InferenceRun) -> Action:
    """The action for a run that exists."""
    if run.metadata.is_being_deleted:
        return Action(
            ActionKind.RELEASE if wellknown.LEGACY_FINALIZER in run.metadata.finalizers else ActionKind.LET_GO
        )
    if run.is_paused or run.status.is_terminal or is_of_the_old_controller(run):
        return NOTHING
    problems = run_problems(run) if not run.status.contract else ()
    if problems:
        reason = _REASONS.get(problems[0].field, Reason.INVALID_SPEC)
        return Action(ActionKind.REFUSE, reason, told(problems))
    if run.spec.is_schedule:
        return Action(ActionKind.SCHEDULE)
    if run.metadata.annotations.get(wellknown.ANNOTATION_CANCEL_REQUESTED) == "true" and run.status.phase is not None:
        return Action(ActionKind.CANCEL)
    return Action(ActionKind.START)


def is_of_the_old_controller(run: InferenceRun) -> bool:
    """Whether the controller that this product replaces has executed the run: such a run is never executed again."""
    has_status = bool(run.status.conditions or run.status.contract or run.status.job_status)
    return run.status.phase is None and has_status


def accepts(run: InferenceRun) -> bool:
    """Whether the shim may write the first status: only where there is none, or only a refusal of its own."""
    refusals = (Reason.INVALID_SPEC, Reason.INVALID_SCHEDULE, Reason.INVALID_TIME_ZONE)
    return run.status.phase is None or (run.status.phase is Phase.PENDING and run.status.reason in refusals)


def config_verdict(config: InferenceConfig, *, allowed_service_accounts: tuple[str, ...] | None) -> Action:
    """What a config's status is to say."""
    problems = config_problems(config, allowed_service_accounts=allowed_service_accounts)
    if not problems:
        return Action(ActionKind.NOTHING, Reason.READY, "runs can use it")
    is_storage = any(problem.field.startswith("spec.storage") for problem in problems)
    return Action(ActionKind.REFUSE, Reason.INVALID_STORAGE if is_storage else Reason.INVALID_SPEC, told(problems))
