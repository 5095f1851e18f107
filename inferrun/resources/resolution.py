"""What a run executes of its config: the storage and the parameters with the run's values. Pure.

The config must be valid. What is wrong with a value is reported with the field of the run, and with
where the config uses it.
"""

from dataclasses import dataclass, field
from typing import Any

from inferrun.fields.problems import Problem, invalid
from inferrun.placeholders import PARAMS, RUN, Values
from inferrun.resources.config import InferenceConfig
from inferrun.resources.interval import interval_problems
from inferrun.resources.parameters import effective_parameters, given_problems
from inferrun.resources.run import InferenceRun
from inferrun.resources.templates import Given, TemplateFault, UnfitValue, resolve_storage
from inferrun.resources.validation import storage_problems, template_problem
from inferrun.stores import SCHEMA_STORES, STORES, End
from inferrun.stores.sql import VALUES_KEY

Storage = dict[str, Any]  # Any: free-form storage


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """The storage maps and parameters of a run; only meaningful without problems."""

    input: Storage = field(default_factory=dict)
    output: Storage = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()


def resolve(run: InferenceRun, config: InferenceConfig, *, is_our_runner: bool) -> Resolved:
    """What the run executes, or why its values are rejected.

    A custom image gets the labels that it may understand in its own way unmodified.
    """
    declared = config.spec.parameters or ()
    given = run.spec.parameters or {}
    span = run.spec.interval
    wrong = list(given_problems(declared, given, config=config.metadata.name))
    wrong += interval_problems(span, field="spec.interval") if span is not None else ()
    if wrong:
        return Resolved(problems=tuple(wrong))
    parameters = effective_parameters(declared, given)
    local = span.local if span is not None else None
    known = Given(
        Values(run.metadata.name, run.metadata.namespace, parameters, local),
        {one.name: one for one in declared},
    )
    storage = config.spec.storage
    inputs, more = _resolve_end(
        storage.input or {}, "input", known, config=config, is_our_runner=is_our_runner
    )
    outputs, others = _resolve_end(
        storage.output or {}, "output", known, config=config, is_our_runner=is_our_runner
    )
    return Resolved(input=inputs, output=outputs, parameters=parameters, problems=(*more, *others))


def _resolve_end(
    storage: Storage, end: End, given: Given, *, config: InferenceConfig, is_our_runner: bool
) -> tuple[Storage, list[Problem]]:
    models, found, problems = STORES if is_our_runner else SCHEMA_STORES, dict(storage), []
    for label in models.keys() & storage.keys():
        path = f"spec.storage.{end}.{label}"
        resolved = resolve_storage(storage[label], model=models[label], path=path, given=given)
        problems += [_problem_of(fault, config=config.metadata.name) for fault in resolved.faults]
        if not resolved.faults and resolved.storage != storage[label]:
            wrong = storage_problems(resolved.storage, model=models[label], end=end, path=path)
            named = f"InferenceConfig {config.metadata.name}, with the values of this run: "
            problems += [
                Problem(field=named + one.field, value=one.value, allowed=one.allowed)
                for one in wrong
            ]
        values = {VALUES_KEY: resolved.values} if resolved.values else {}
        found[label] = {**resolved.storage, **values} if values else resolved.storage
    return found, problems


def _problem_of(fault: TemplateFault, *, config: str) -> Problem:
    """The problem of the field of the run whose value is unfit, or of the config's template."""
    cause = fault.cause
    if not isinstance(cause, UnfitValue):
        return template_problem(fault)
    placeholder = cause.placeholder
    name = {PARAMS: f"spec.parameters.{placeholder.member}", RUN: f"metadata.{placeholder.member}"}
    blamed = name.get(placeholder.group, "spec.interval")
    allowed = f"{cause.why}: {fault.field} of InferenceConfig {config} contains {placeholder}"
    return invalid(blamed, cause.value, allowed)
