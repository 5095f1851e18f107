"""The CEL rules of `InferenceRun`: the form of the schedule, reserved parameters, and fields that
cannot change.

The ranges of cron fields are checked here, so that kubectl reports an error immediately. The shim
reports an expression that never fires and a time zone that does not exist.
"""

from typing import Final

from pydantic.alias_generators import to_camel

from deploy.crds.config_rules import RESOURCE_RULES
from deploy.crds.rules import ERROR_THRESHOLD, ROOT, Rule, either, text, unchanged
from inferrun.reasons import Phase
from inferrun.resources.cron import MACROS
from inferrun.resources.interval import FRACTION, WHOLE_SECONDS
from inferrun.resources.parameters import RESERVED_PARAMETERS
from inferrun.resources.run import MUTABLE_AFTER_START, SCHEDULE_ONLY

MONTHS: Final = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
WEEKDAYS: Final = "sun|mon|tue|wed|thu|fri|sat"


def _cron_field(value: str) -> str:
    item = rf"(\*|\?|({value})(-({value}))?)(/[1-9][0-9]?)?"
    return f"{item}(,{item})*"


CRON_PATTERN: Final = (
    "(?i)^("
    + "|".join(MACROS)
    + "|@every +([0-9]{1,6}h([0-9]{1,6}m)?([0-9]{1,6}s)?|[0-9]{1,6}m([0-9]{1,6}s)?|[0-9]{1,6}s)|"
    + r" +".join(
        (
            _cron_field("0?[0-9]|[1-5][0-9]"),
            _cron_field("0?[0-9]|1[0-9]|2[0-3]"),
            _cron_field("0?[1-9]|[12][0-9]|3[01]"),
            _cron_field(f"0?[1-9]|1[0-2]|{MONTHS}"),
            _cron_field(f"0?[0-7]|{WEEKDAYS}"),
        )
    )
    + ")$"
)

SCHEDULE: Final = Rule(
    holds=f"self.matches({text(CRON_PATTERN)})",
    message=(
        """'schedule is "' + self + '"; allowed are five fields (minute 0-59, hour 0-23, day of month 1-31, month """
        """1-12 or JAN-DEC, day of week 0-7 or SUN-SAT) such as "0 9 * * MON", or """
        f"""{", ".join(MACROS)}, or "@every 90m"; the time zone goes into timeZone'"""
    ),
)

TIME_ZONE: Final = Rule(
    holds=r"self != 'Local' && self.matches('^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$')",
    message="""'timeZone is "' + self + '"; allowed are names of the IANA database such as Europe/Rome or Etc/UTC'""",
)

PARAMETERS: Final = Rule(
    holds=" && ".join(f"!({text(name)} in self)" for name in RESERVED_PARAMETERS),
    message=(
        "'parameters has the name \"' + ("
        + "".join(f"{text(name)} in self ? {text(name)} : " for name in RESERVED_PARAMETERS[:-1])
        + text(RESERVED_PARAMETERS[-1])
        + f") + '\"; allowed is any name but the reserved {', '.join(RESERVED_PARAMETERS)}'"
    ),
)


RUN_ONLY: Final = Rule(
    holds="!has(self.schedule) || !has(self.dryRun) || !self.dryRun",
    message="""'dryRun is "true" and schedule is set; allowed is one of them: check the config with a run of its own'""",
    field=".dryRun",
)

NO_RETRY_BY_SCHEDULE: Final = Rule(
    holds="!has(self.schedule) || !has(self.retryOf)",
    message="""'retryOf is "' + self.retryOf + '" and schedule is set; allowed is one of them'""",
    field=".retryOf",
)

_WITHOUT_CONFIG: Final = ("backfill", "suspend")
"""The fields of the spec that a back-fill may have."""

CONFIG_OR_BACKFILL: Final = Rule(
    holds="has(self.configRef) || has(self.backfill)",
    message="'configRef is missing; allowed is the name of an InferenceConfig, such as {name: iris}'",
    field=".configRef",
)

NO_INTERVAL_OF_SCHEDULE: Final = Rule(
    holds="!has(self.schedule) || !has(self.interval)",
    message=(
        """'interval is set and schedule is "' + self.schedule + '"; allowed is one of them: the runs of a schedule get the time """
        """since the last scheduled one'"""
    ),
    field=".interval",
)


_WHOLE_SECONDS: Final = Rule(
    holds=f"!self.matches({text(FRACTION)})",
    message=f"""'the time is "' + self + '"; it {WHOLE_SECONDS}'""",
)


def _period(field: str, *, relation: str, allowed: str) -> Rule:
    """The rule that `start` and `end` of a field are times of the calendar, in this order."""
    return Rule(
        holds=(
            "!format.datetime().validate(self.start).hasValue() && !format.datetime().validate(self.end).hasValue() && "
            f"timestamp(self.start) {relation} timestamp(self.end)"
        ),
        message=(
            f"""'{field}.start is "' + self.start + '" and {field}.end is "' + self.end + '"; allowed is {allowed}, and """
            """times such as 2026-11-21T00:00:00Z'"""
        ),
        field=".end",
    )


SCHEDULE_ONLY_FIELDS: Final = {
    field: f"self.{field}" if field in ("timeZone", "concurrencyPolicy") else "'set'"
    for field in map(to_camel, SCHEDULE_ONLY)
}
"""Fields that are only allowed for schedules, each with its value as CEL text. Numbers are not
shown, because the API server's cost estimate knows no maximum size for a number converted to text
and would reject the rule."""


TERMINAL_PHASES: Final = tuple(phase for phase in Phase if phase.is_terminal)

_KEEPS_SCHEDULE: Final = "has(self.spec.schedule) == has(oldSelf.spec.schedule)"
_HAS_STARTED: Final = (
    "has(oldSelf.status) && has(oldSelf.status.contract) && !has(oldSelf.spec.schedule)"
)
_HAS_ENDED: Final = f"has(oldSelf.status) && has(oldSelf.status.phase) && oldSelf.status.phase in {either(*TERMINAL_PHASES)}"
_NEW_RUN: Final = "a new run (a new metadata.name, or metadata.generateName with kubectl create)"

_SCHEDULE_CHANGED: Final = (
    """has(self.spec.schedule) ? 'schedule "' + self.spec.schedule + '" cannot be added to a run that was """
    """created without one; create another run' : 'schedule "' + oldSelf.spec.schedule + '" cannot be removed; """
    """allowed are another schedule, suspend: true, or deleting the run'"""
)


def spec_stays(fields: tuple[str, ...]) -> Rule:
    """The rule on changes of a run's spec, which has these fields. A schedule can be neither added
    nor removed. Once the run has its contract, only the mutable fields can change, and these until
    it ends.

    One rule, because the API server evaluates it for every write of the status as well: a
    comparison of the whole spec then costs as much as one of the twenty that a rule for each field
    would need.
    """
    frozen = tuple(field for field in fields if field not in MUTABLE_AFTER_START | {"schedule"})
    mutable = tuple(sorted(MUTABLE_AFTER_START))
    return Rule(
        holds=(
            f"self.spec == oldSelf.spec || (({_KEEPS_SCHEDULE}) && (!({_HAS_STARTED}) || ({_unchanged(frozen)})) && "
            f"(!({_HAS_ENDED}) || ({_unchanged(mutable)})))"
        ),
        message=(
            f"!({_KEEPS_SCHEDULE}) ? ({_SCHEDULE_CHANGED}) : ({_HAS_STARTED}) && !({_unchanged(frozen)}) ? "
            f"{_changed(frozen)} + ' cannot change: the run has started with the value that it had; allowed are changes of "
            f"suspend and timeoutSeconds until the run ends, or {_NEW_RUN}' : {_changed(mutable)} + ' cannot change: the run "
            f"has ended, its status.phase is ' + oldSelf.status.phase + '; allowed is {_NEW_RUN}'"
        ),
        field=".spec",
    )


def _unchanged(fields: tuple[str, ...]) -> str:
    return " && ".join(f"({unchanged(f'spec.{field}')})" for field in fields)


def _changed(fields: tuple[str, ...]) -> str:
    """A CEL expression for the names of those of the fields that have changed."""
    names = " + ".join(
        f"({unchanged(f'spec.{field}')} ? '' : {text(f'{field}, ')})" for field in fields
    )
    return f"({names} + '.').replace(', .', '')"


OUTCOME_FIELDS: Final = (
    "phase",
    "reason",
    "completionTime",
    "exitCode",
    "records",
    "delivery",
    "output",
)
OUTCOME_STAYS: Final = Rule(
    holds=(
        "!has(oldSelf.status) || !has(oldSelf.status.phase) || "
        f"!(oldSelf.status.phase in {either(*TERMINAL_PHASES)}) || (has(self.status) && "
        + " && ".join(f"({unchanged(f'status.{field}')})" for field in OUTCOME_FIELDS)
        + ")"
    ),
    message=(
        "'status.phase is ' + oldSelf.status.phase + ', which is final: "
        f"{', '.join(OUTCOME_FIELDS)} can be neither changed nor removed; start a new run instead'"
    ),
    field=".status",
)


def _backfill_alone(fields: tuple[str, ...]) -> Rule:
    others = [field for field in fields if field not in _WITHOUT_CONFIG]
    names = " + ".join(f"(has(self.{field}) ? {text(f'{field}, ')} : '')" for field in others)
    return Rule(
        holds=f"!has(self.backfill) || !({' || '.join(f'has(self.{field})' for field in others)})",
        message=(
            f"({names} + '.').replace(', .', '') + ' is set together with backfill; the runs of a back-fill have the spec of "
            "their schedule: allowed is suspend'"
        ),
        field=".backfill",
    )


def run_rules(spec_fields: tuple[str, ...]) -> dict[str, tuple[Rule, ...]]:
    """The rules of a run. `spec_fields` are all fields of its spec, so that a field added later is
    frozen as well."""
    return {
        ROOT: (OUTCOME_STAYS, spec_stays(spec_fields)),
        "spec": (
            *(
                Rule(
                    holds=f"!has(self.{field}) || has(self.schedule)",
                    message=f"'{field} is ' + {value} + '; it is allowed only together with schedule'",
                    field=f".{field}",
                )
                for field, value in SCHEDULE_ONLY_FIELDS.items()
            ),
            CONFIG_OR_BACKFILL,
            _backfill_alone(spec_fields),
            RUN_ONLY,
            NO_RETRY_BY_SCHEDULE,
            NO_INTERVAL_OF_SCHEDULE,
        ),
        **{
            f"spec.{field}.{end}": (_WHOLE_SECONDS,)
            for field in ("interval", "backfill")
            for end in ("start", "end")
        },
        "spec.interval": (_period("interval", relation="<", allowed="an end after the start"),),
        "spec.interval.timeZone": (TIME_ZONE,),
        "spec.schedule": (SCHEDULE,),
        "spec.timeZone": (TIME_ZONE,),
        "spec.errorThreshold": (ERROR_THRESHOLD,),
        **RESOURCE_RULES,
        "spec.parameters": (PARAMETERS,),
        "spec.backfill": (
            _period("backfill", relation="<=", allowed="an end that is not before the start"),
        ),
    }
