"""Asks until the answer follows a JSON schema. The answer is judged here, whatever the server
promises."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

from inferrun.plugins import NO_USAGE, ContractError, TokenUsage
from inferrun_runner.protocols.prompts.answers import Text
from inferrun_runner.protocols.prompts.bodies import Members
from inferrun_runner.protocols.prompts.predictions import resolved

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError

_FIELD: Final = "request.responseSchema"
_AGAIN: Final = "This answer is not valid: {fault}. Answer again, with a JSON object that follows the schema, and nothing else."


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server said, and what it costs."""

    answer: Text
    response: dict[str, Any]  # Any: foreign JSON

    usage: TokenUsage
    """The tokens of all tries."""

    value: dict[str, Any] | None = None  # Any: JSON
    """The validated object."""

    fault: str = ""
    """Why there is none."""

    asked: int = 1


class Validation:
    """A JSON schema. The constructor raises ContractError."""

    def __init__(self, schema: dict[str, Any]) -> None:  # Any: JSON
        from jsonschema import Draft202012Validator  # noqa: PLC0415  only runs with a schema pay for its import
        from jsonschema.exceptions import SchemaError  # noqa: PLC0415

        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            raise ContractError(
                f"{_FIELD}: not a valid JSON schema at {error.json_path}: {error.message[:200]}"
            ) from error
        if schema.get("type") != "object":
            raise ContractError(f"{_FIELD}.type: must be object, whose properties become columns")
        for reference in _references(schema):
            if resolved(schema, reference) is None:
                raise ContractError(
                    f"{_FIELD}: $ref {reference[:100]!r} does not lead to a part of the schema, such as #/$defs/name"
                )
        self._validator = Draft202012Validator(schema)
        self._names = json.dumps(schema, ensure_ascii=False)

    def judge(self, answer: Text) -> tuple[dict[str, Any] | None, str]:  # Any: JSON
        """Return the object that the answer is, or None and why it is not one that follows the
        schema, without a value of it."""
        from jsonschema.exceptions import best_match  # noqa: PLC0415  as above

        if answer.refusal:
            return None, "the model refused"
        if answer.finish_reason == "length":
            return None, "cut off after the maximum number of tokens"
        if answer.text is None:
            return None, "empty"
        try:
            value = json.loads(answer.text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return None, "not valid JSON"
        error = best_match(self._validator.iter_errors(value))
        return (value, "") if error is None else (None, self._rule_of(error))

    def _rule_of(self, error: "ValidationError") -> str:
        """Return the place and the rule: the message of the library repeats values."""
        known = (
            str(part) if isinstance(part, int) or f'"{part}"' in self._names else "…"
            for part in error.absolute_path
        )
        return f"/{'/'.join(known)}: {_text_of_rule(error)}"


async def ask(
    send: Callable[[Members], Awaitable[Reply]],
    body: Members,
    *,
    validation: Validation | None,
    retries: int,
) -> Reply:
    """Send a body until the answer is valid, with `retries` further tries. In a chat, the model is
    told what is wrong."""
    if validation is None:
        return await send(body)
    usage, conversation = NO_USAGE, body.get("messages")
    for asked in range(1, retries + 2):
        reply = await send(body)
        usage += reply.usage
        value, fault = validation.judge(reply.answer)
        reply = replace(reply, usage=usage, value=value, fault=fault, asked=asked)
        if not fault:
            break
        if isinstance(conversation, list) and reply.answer.text is not None:
            told = {"role": "user", "content": _AGAIN.format(fault=fault)}
            body = {
                **body,
                "messages": [
                    *conversation,
                    {"role": "assistant", "content": reply.answer.text},
                    told,
                ],
            }
    return reply


def _text_of_rule(error: "ValidationError") -> str:
    rule, given = error.validator, error.validator_value
    match rule, given:
        case "enum", list():
            return f"not one of {len(given)} values"
        case "required", list() if isinstance(error.instance, dict):
            missing = [name for name in given if name not in error.instance]
            return f"{', '.join(map(repr, missing[:5]))} is missing"
        case "type", _:
            return f"must be {' or '.join(given) if isinstance(given, list) else given}"
        case "additionalProperties" | "unevaluatedProperties", _:
            return "has members that the schema does not have"
    return f"violates {rule} {given}" if isinstance(given, (int, float)) else f"violates {rule}"


def _references(schema: Any) -> list[str]:  # Any: JSON
    match schema:
        case dict():
            own = [
                one for name in ("$ref", "$dynamicRef") if isinstance(one := schema.get(name), str)
            ]
            return own + [one for inner in schema.values() for one in _references(inner)]
        case list():
            return [one for inner in schema for one in _references(inner)]
    return []


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)
