"""What a program, another workflow or a schedule asks for when it starts `SubmitInferenceRun`: one JSON object.

    {"namespace": "kserve-test", "configRef": "iris", "parameters": {"day": "2026-11-21"}, "timeoutSeconds": 600}

The argument is validated here and not by Temporal's converter: an argument that a converter refuses fails the
workflow's task again and again, and the caller hears nothing; one that is refused here is an answer. Pure.
"""

import hashlib
import json
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from inferrun import wellknown
from inferrun.resources.config import BackoffLimit
from inferrun.resources.references import ConfigReference
from inferrun.resources.run import RESERVED_PARAMETERS
from inferrun.resources.scalars import NamespaceName, Seconds
from inferrun.text import one_line

WORKFLOW_TYPE: Final = "SubmitInferenceRun"
"""The workflow that a program starts, with a submission as its argument."""

DEFAULT_TASK_QUEUE: Final = "inferrun"
"""The task queue of an installation that does not choose another one."""

MAX_PROBLEMS: Final = 5
"""Problems that a refusal lists at most; the first ones help, the hundredth does not."""


class InvalidSubmission(ValueError):
    """The argument is not a submission; the text names each field that is wrong, its value and what is allowed."""


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


class _Part(BaseModel):
    model_config = ConfigDict(
        frozen=True, alias_generator=to_camel, populate_by_name=True, extra="forbid", serialize_by_alias=True
    )


class Parent(_Part):
    """The scheduled InferenceRun on whose behalf a schedule submits; what to run is read from its spec."""

    name: str
    uid: str


class Following(_Part):
    """The run that a submission follows already, when its workflow is continued as new."""

    name: str
    uid: str


class Submission(_Part):
    """One run to make. `parent` and `following` are the product's own; programs leave them out."""

    namespace: NamespaceName
    config_ref: Annotated[ConfigReference | None, BeforeValidator(_named)] = None
    parameters: Annotated[dict[str, Annotated[str, Field(max_length=65536)]] | None, Field(max_length=64)] = None
    timeout_seconds: Seconds | None = None
    backoff_limit: BackoffLimit | None = None
    pending_timeout_seconds: Seconds | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    parent: Parent | None = None
    following: Following | None = None

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        if self.parent is not None:
            self._refuse_beside_parent()
        elif self.config_ref is None:
            raise ValueError("configRef: missing; it names the InferenceConfig, as a text or as {name, namespace}")
        reserved = sorted(set(self.parameters or {}) & set(RESERVED_PARAMETERS))
        if reserved:
            raise ValueError(f"parameters: {reserved[0]!r} is reserved; reserved are {', '.join(RESERVED_PARAMETERS)}")
        ours = [key for key in self.labels if key.startswith(f"{wellknown.DOMAIN}/")]
        if ours:
            raise ValueError(
                f"labels: {ours[0]!r} is reserved; labels under {wellknown.DOMAIN}/ are set by the product"
            )
        return self

    def _refuse_beside_parent(self) -> None:
        asked = self.model_dump(by_alias=True, exclude_defaults=True, exclude={"namespace", "parent", "following"})
        if asked:
            raise ValueError(f"{next(iter(asked))}: not beside parent; what a schedule runs is read from its spec")

    @property
    def request_hash(self) -> str:
        """SHA-256 of what is asked for: the same for every spelling of the same request."""
        asked = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"following"})
        reference = asked.get("configRef")
        if reference is not None and reference.get("namespace") == self.namespace:
            del reference["namespace"]
        asked = {key: value for key, value in asked.items() if value != {}}
        canonical = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def run_spec(self) -> dict[str, Any]:  # Any: JSON of a resource
        """The spec of the InferenceRun that a program asks for."""
        wanted = {"config_ref", "parameters", "timeout_seconds", "backoff_limit", "pending_timeout_seconds"}
        return self.model_dump(mode="json", by_alias=True, exclude_none=True, include=wanted)


def parse_submission(argument: object) -> Submission:
    """The submission in a decoded JSON value. Raises `InvalidSubmission`."""
    if not isinstance(argument, dict):
        text = 'one JSON object is wanted, such as {"namespace": "default", "configRef": "iris"}'
        raise InvalidSubmission(f"{text}; given: {one_line(json.dumps(argument, default=str), limit=64)}")
    try:
        return Submission.model_validate(argument)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False)
        lines = [_problem(item) for item in problems[:MAX_PROBLEMS]]
        raise InvalidSubmission("; ".join(lines)) from error


def _problem(item: ErrorDetails) -> str:
    field = ".".join(str(part) for part in item["loc"])
    message = item["msg"].removeprefix("Value error, ")
    if not field:
        return str(message)
    if item["type"] == "missing":
        return f"{field}: missing"
    if item["type"] == "extra_forbidden":
        known = [name for name in _public_fields() if name.lower() == field.replace("_", "").lower()]
        hint = f"did you mean {known[0]}?" if known else f"known are {', '.join(_public_fields())}"
        return f"{field}: not a field; {hint}"
    return f"{field}: {message} (given: {one_line(json.dumps(item['input'], default=str), limit=64)})"


def _public_fields() -> list[str]:
    internal = {"parent", "following"}
    return [field.alias or name for name, field in Submission.model_fields.items() if name not in internal]
