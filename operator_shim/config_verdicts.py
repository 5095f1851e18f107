"""The digest of a config that the shim's cache keeps, and what is reported about it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import ValidationError

from control.trust.allowed import disallowed
from inferrun import wellknown
from inferrun.fields.problems import Problem, describe, parse_problems
from inferrun.kube.objects import Object, annotations_of, status_of
from inferrun.reasons import Reason
from inferrun.resources import InferenceConfig, parse_config
from inferrun.resources.placement import Placement
from inferrun.resources.validation import config_problems, config_warnings
from inferrun.run_defaults import Defaults

NAMED_RUNS: Final = 5
"""How many runs the Event on an edited config names."""

_DIGEST: Final = "digest"
_KEPT_METADATA: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "deletionTimestamp",
)
_KEPT_ANNOTATIONS: Final = (wellknown.ANNOTATION_PAUSED,)


@dataclass(frozen=True, slots=True)
class ConfigDigest:
    """The first problems of a config, and what it names that an installation may not allow."""

    problems: tuple[Problem, ...] = ()
    service_account_name: str | None = None
    image: str | None = None
    placement: Placement = field(default_factory=Placement)
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: InferenceConfig) -> "ConfigDigest":
        """The digest of a config that could be parsed."""
        return cls(
            problems=config_problems(config),
            service_account_name=config.spec.service_account_name,
            image=config.spec.image,
            placement=config.spec.placement,
            warnings=config_warnings(config),
        )


def digest_config(item: Object) -> Object:
    """The config for the cache of an informer."""
    metadata = {key: item["metadata"][key] for key in _KEPT_METADATA if key in item["metadata"]}
    annotations = annotations_of(item)
    metadata["annotations"] = {
        key: annotations[key] for key in _KEPT_ANNOTATIONS if key in annotations
    }
    try:
        digest = ConfigDigest.of(
            parse_config({key: value for key, value in item.items() if key != "status"})
        )
    except ValidationError as error:
        digest = ConfigDigest(parse_problems(error))
    return {"metadata": metadata, "status": status_of(item), _DIGEST: digest}


def digest_of(cached: Object) -> ConfigDigest:
    found: ConfigDigest = cached[_DIGEST]
    return found


def edit_notice(runs: Sequence[str], *, generation: int) -> str:
    """What the Event on an edited config says about the runs that the edit does not affect; empty
    without such runs.
    """
    if not runs:
        return ""
    count = f"{len(runs)} run{'s' if len(runs) > 1 else ''} in progress"
    names = ", ".join(sorted(runs)[:NAMED_RUNS])
    more = f" and {len(runs) - NAMED_RUNS} more" if len(runs) > NAMED_RUNS else ""
    return (
        f"generation {generation} does not affect {count}, which keep what they started with: {names}{more}; "
        "to use it, create new runs"
    )


def config_verdict(
    config: ConfigDigest, defaults: Defaults, *, runner_account: str
) -> tuple[Reason, str]:
    """The reason and the message for the status of a config."""
    found = disallowed(
        defaults,
        runner_account=runner_account,
        service_account=config.service_account_name,
        image=config.image,
        placement=config.placement,
    )
    problems = (*config.problems, *found)
    if not problems:
        return Reason.READY, "; ".join(("runs can use this config", *config.warnings))
    is_storage = any(problem.field.startswith("spec.storage") for problem in problems)
    return Reason.INVALID_STORAGE if is_storage else Reason.INVALID_SPEC, describe(problems)
