"""The argument of the workflow `SubmitInferenceRun`, which programs, other workflows and schedules
start: a JSON object.

    {"namespace": "kserve-test", "configRef": "iris", "parameters": {"day": "2026-11-21"},
    "timeoutSeconds": 600}

The argument is validated here and not by Temporal's data converter. If the converter rejects an
argument, the workflow task is retried indefinitely and the caller gets no answer; an error raised
here fails the workflow. Pure.
"""

import hashlib
import json
from typing import Annotated, Any, Final, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StrictBool,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from inferrun import wellknown
from inferrun.camel_case import CamelCase
from inferrun.error_threshold import ErrorThreshold
from inferrun.fields.scalars import NamespaceName, ResourceName, Seconds
from inferrun.resources.config import (
    BackoffLimit,
    CanaryRecords,
    ResourceRequirements,
    Shards,
    Threshold,
)
from inferrun.resources.interval import Interval, interval_problems
from inferrun.resources.parameters import RESERVED_PARAMETERS
from inferrun.resources.references import ConfigReference
from inferrun.resources.run import EXECUTION_FIELDS
from inferrun.text import one_line

WORKFLOW_TYPE: Final = "SubmitInferenceRun"
"""The workflow that a program starts, with a submission as its argument."""

DEFAULT_TASK_QUEUE: Final = "inferrun"
"""The task queue of an installation that does not choose another one."""

MAX_PROBLEMS: Final = 5
"""Maximum number of problems in an error message."""

MAX_PAYLOAD_BYTES: Final = 16 * 1024
"""Maximum size of anything that is passed through Temporal, submissions included: Temporal is no
place for data."""

MAX_LABELS: Final = 64


INTERNAL_FIELDS: Final = ("parent", "following")
"""Fields of a submission that programs do not set."""


class InvalidSubmission(ValueError):
    """The argument is not a valid submission; the message names the invalid fields, their values
    and what is allowed."""


def _only(*known: str) -> BeforeValidator:
    """Reports an unknown field of an object: the models of resources ignore them."""

    def check(value: object) -> object:
        unknown = (
            next((str(key) for key in value if key not in known), None)
            if isinstance(value, dict)
            else None
        )
        if unknown is not None:
            raise ValueError(
                f"unknown field {one_line(unknown, limit=64)!r}; allowed fields: {', '.join(known)}"
            )
        return value

    return BeforeValidator(check)


def _whole_or_text(value: object) -> object:
    return _number(value) if isinstance(value, bool) else value


def _threshold(value: int | str | None) -> int | str | None:
    if value is not None:
        ErrorThreshold.parse(value)
    return value


def _number(value: object) -> object:
    """A number as in the schema of the CRD: no text or boolean is an integer."""
    if isinstance(value, str | bool):
        raise ValueError("must be an integer")  # noqa: TRY004 -- pydantic reports a ValueError with its field
    return value


Number = BeforeValidator(_number)


class _SubmittedPart(CamelCase, extra="forbid", serialize_by_alias=True):
    """An object in which a misspelt field is an error."""


class KnownRun(_SubmittedPart):
    """An InferenceRun in the namespace of the submission."""

    name: str
    uid: str


_RUN_FIELDS: Final = EXECUTION_FIELDS | {"dry_run", "retry_of", "interval"}
"""What a submission says about the spec of the run."""


class Submission(_SubmittedPart):
    """A request for one run. `parent` and `following` are internal; programs do not set them."""

    namespace: NamespaceName
    config_ref: Annotated[
        ConfigReference | None,
        _only("name", "namespace"),
        BeforeValidator(lambda value: {"name": value} if isinstance(value, str) else value),
    ] = None
    parameters: Annotated[
        dict[str, Annotated[str, Field(max_length=65536)]] | None, Field(max_length=64)
    ] = None
    interval: Annotated[Interval | None, _only("start", "end", "timeZone")] = None
    timeout_seconds: Annotated[Seconds | None, Number] = None
    backoff_limit: Annotated[BackoffLimit | None, Number] = None
    pending_timeout_seconds: Annotated[Seconds | None, Number] = None
    error_threshold: Annotated[
        Threshold | None, BeforeValidator(_whole_or_text), AfterValidator(_threshold)
    ] = None
    canary_records: Annotated[CanaryRecords | None, Number] = None
    shards: Annotated[Shards | None, Number] = None
    resources: Annotated[ResourceRequirements | None, _only("requests", "limits")] = None
    dry_run: StrictBool | None = None
    retry_of: ResourceName | None = None
    labels: Annotated[
        dict[Annotated[str, Field(max_length=317)], Annotated[str, Field(max_length=63)]] | None,
        Field(max_length=MAX_LABELS),
    ] = None
    parent: KnownRun | None = None
    """The scheduled InferenceRun for which a Temporal schedule submits; its spec determines the
    run."""

    following: KnownRun | None = None
    """The run that the submission is already waiting for; set when its workflow continues as
    new."""

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        wrong = ""
        if self.parent is None and self.config_ref is None:
            wrong = "configRef: missing; set it to the name of an InferenceConfig or to {name, namespace}"
        internal = {"namespace", "parent", "following"}
        asked = (
            self.model_dump(by_alias=True, exclude_defaults=True, exclude=internal)
            if self.parent
            else {}
        )
        if asked:
            wrong = f"{next(iter(asked))}: not allowed with parent; the spec of the schedule determines its runs"
        if reserved := sorted(set(self.parameters or {}) & set(RESERVED_PARAMETERS)):
            wrong = f"parameters: {reserved[0]!r} is reserved; reserved names: {', '.join(RESERVED_PARAMETERS)}"
        if self.interval is not None and (
            problem := next(interval_problems(self.interval, field="interval"), None)
        ):
            wrong = str(problem)
        if label := next(
            (key for key in self.labels or () if key.startswith(f"{wellknown.DOMAIN}/")), ""
        ):
            wrong = f"labels: {label!r} is reserved; labels under {wellknown.DOMAIN}/ are set by the product"
        if wrong:
            raise ValueError(wrong)
        return self

    @property
    def request_hash(self) -> str:
        """SHA-256 digest of the request, the same for all equivalent requests."""
        asked = self.model_dump(
            mode="json", by_alias=True, exclude_none=True, exclude={"following"}
        )
        reference = asked.get("configRef")
        if reference is not None and reference.get("namespace") == self.namespace:
            del reference["namespace"]
        asked = {key: value for key, value in asked.items() if value != {}}
        canonical = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def run_spec(self) -> dict[str, Any]:  # Any: JSON of a resource
        """The spec of the InferenceRun to create."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, include=_RUN_FIELDS)


def parse_submission(argument: object) -> Submission:
    """The submission in a decoded JSON value. Raises `InvalidSubmission`."""
    if not isinstance(argument, dict):
        text = 'the argument must be a JSON object such as {"namespace": "default", "configRef": "iris"}'
        raise InvalidSubmission(
            f"{text}; given: {one_line(json.dumps(argument, default=str), limit=64)}"
        )
    try:
        return Submission.model_validate(argument)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        lines = [_problem(item) for item in problems[:MAX_PROBLEMS]]
        raise InvalidSubmission("; ".join(lines)) from error


def _problem(item: ErrorDetails) -> str:
    field = one_line(".".join(str(part) for part in item["loc"]), limit=128)
    message = item["msg"].removeprefix("Value error, ")
    if not field:
        return str(message)
    if item["type"] == "missing":
        return f"{field}: missing"
    if item["type"] == "extra_forbidden":
        public = [
            str(one.alias)
            for name, one in Submission.model_fields.items()
            if name not in INTERNAL_FIELDS
        ]
        known = [name for name in public if name.lower() == field.replace("_", "").lower()]
        hint = f"did you mean {known[0]}?" if known else f"allowed fields: {', '.join(public)}"
        return f"{field}: unknown field; {hint}"
    return (
        f"{field}: {message} (given: {one_line(json.dumps(item['input'], default=str), limit=64)})"
    )
