"""What the responses to requests say, as the columns of predictions. Pure; pyarrow is imported only if predictions are typed.

A prediction is an object with the same members for every record: `text`, `finish_reason`, the tokens, and the properties of the
answer's schema; or `embedding`, `scores`, `score`, or `flagged` with its reasons.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from inferrun.contract import Request
from inferrun.plugins import ContractError
from runner.protocols.prompts.predictions import JSON, Form, form_of_output

_BASE: Final = {"text": "string", "finish_reason": "string", "prompt_tokens": "int64", "completion_tokens": "int64"}
_ASKED_FOR: Final[dict[str, tuple[str, Form]]] = {
    "logprobs": ("logprobs", [{"token": "string", "logprob": "double"}]),
    "tool_calls": ("tools", [{"name": "string", "arguments": "string"}]),
}
"""Members of a prediction that it has if the body of the request has another member."""

_OTHERS: Final[dict[str, dict[str, Form]]] = {
    "Embedding": {"embedding": ["float"]},
    "Rerank": {"scores": ["double"]},
    "Score": {"score": "double"},
    "Moderation": {"flagged": "bool", "categories": JSON, "category_scores": JSON},
}


def members_of(request: Request, schema: Form) -> dict[str, Form]:
    """Return the members of a prediction; `schema` is the form of the answer's schema. Raises ContractError for a clash."""
    members: dict[str, Form] = dict(_OTHERS.get(request.task) or _BASE)
    if request.task not in _OTHERS:
        members |= {name: form for name, (asked, form) in _ASKED_FOR.items() if request.body.get(asked)}
    more = dict(schema) if isinstance(schema, dict) else {}
    for name in more.keys() & members:
        raise ContractError(
            f"request.responseSchema.properties.{name}: a prediction has a member of that name in any case; rename the property"
        )
    members |= more
    for at, one in enumerate(request.outputs):
        if one.name in members:
            raise ContractError(f"request.outputs.{at}.name: a prediction has a member {one.name!r} in any case")
        members[one.name] = form_of_output(one.type, field=f"request.outputs.{at}.type")
    return members


class InvalidAnswer(ValueError):
    """A response that is not what the task expects. The message does not repeat a value of it."""


@dataclass(frozen=True, slots=True)
class Text:
    """An answer in words."""

    text: str | None
    finish_reason: str | None
    refusal: str = ""
    """Not empty if the model does not want to answer."""

    logprobs: list[dict[str, Any]] | None = None
    tool_calls: list[dict[str, Any]] | None = None


def text_of(task: str, response: Any) -> Text:  # Any: foreign JSON
    """Return the answer in a response. Raises InvalidAnswer."""
    if task == "Response":
        return _text_of_output(response)
    choice = _first(response, "choices")
    reason = _string(choice, "finish_reason")
    if task == "Completion":
        return Text(_string(choice, "text"), reason, logprobs=_logprobs_of_completion(choice.get("logprobs")))
    message = choice.get("message")
    if not isinstance(message, dict):
        raise InvalidAnswer("its choice has no message")
    calls = [one.get("function") for one in message.get("tool_calls") or () if isinstance(one, dict)]
    return Text(
        _content_of(message.get("content")),
        reason,
        refusal=_string(message, "refusal") or "",
        logprobs=_logprobs_of_chat(choice.get("logprobs")),
        tool_calls=[_call_of(one) for one in calls if isinstance(one, dict)] or None,
    )


def vectors_of(response: Any, *, records: int) -> list[list[float]]:  # Any: foreign JSON
    """Return the embeddings of a request with so many records, in their order. Raises InvalidAnswer."""
    return [_vector_of(one.get("embedding")) for one in _by_index(response, "data", records=records)]


def scores_of(response: Any, *, documents: int) -> list[float]:  # Any: foreign JSON
    """Return the scores of the documents, in their order. Raises InvalidAnswer."""
    ranked = _by_index(response, "results" if "results" in response else "data", records=documents)
    return [_number(one.get("relevance_score", one.get("score"))) for one in ranked]


def moderations_of(response: Any, *, records: int) -> list[dict[str, Any]]:  # Any: foreign JSON
    """Return the judgement of each record. Raises InvalidAnswer."""
    found = response.get("results") if isinstance(response, dict) else None
    if not isinstance(found, list) or len(found) != records or not all(isinstance(one, dict) for one in found):
        raise InvalidAnswer(f"it has no results for {records} records")
    return [{name: one.get(name) for name in _OTHERS["Moderation"]} for one in found]


def _text_of_output(response: Any) -> Text:  # Any: foreign JSON
    output = response.get("output") if isinstance(response, dict) else None
    if not isinstance(output, list):
        raise InvalidAnswer("it has no output")
    items = [one for one in output if isinstance(one, dict)]
    parts = [part for one in items for part in one.get("content") or () if isinstance(part, dict)]
    texts = [text for part in parts if part.get("type") == "output_text" and (text := _string(part, "text"))]
    refusals = [text for part in parts if part.get("type") == "refusal" and (text := _string(part, "refusal"))]
    details = response.get("incomplete_details")
    reason = _string(details, "reason") if isinstance(details, dict) else None
    return Text(
        "".join(texts) if texts else None,
        {"max_output_tokens": "length", None: "stop"}.get(reason, reason),
        refusal="".join(refusals),
        logprobs=[
            one for part in parts if (found := _logprobs_of_chat({"content": part.get("logprobs")})) for one in found
        ]
        or None,
        tool_calls=[_call_of(one) for one in items if one.get("type") == "function_call"] or None,
    )


def _content_of(content: Any) -> str | None:  # Any: foreign JSON
    if content is None or isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(text for part in content if isinstance(part, dict) and (text := _string(part, "text")))
    raise InvalidAnswer("its message has no text")


def _call_of(call: Mapping[str, Any]) -> dict[str, Any]:  # Any: foreign JSON
    return {"name": _string(call, "name"), "arguments": _string(call, "arguments")}


def _logprobs_of_chat(found: Any) -> list[dict[str, Any]] | None:  # Any: foreign JSON
    tokens = found.get("content") if isinstance(found, dict) else None
    if not isinstance(tokens, list):
        return None
    return [{"token": _string(one, "token"), "logprob": _number(one.get("logprob"))} for one in tokens]


def _logprobs_of_completion(found: Any) -> list[dict[str, Any]] | None:  # Any: foreign JSON
    if not isinstance(found, dict) or not isinstance(tokens := found.get("tokens"), list):
        return _logprobs_of_chat(found)
    numbers = found.get("token_logprobs") or ()
    return [{"token": token, "logprob": number} for token, number in zip(tokens, numbers, strict=False)]


def _first(response: Any, member: str) -> Mapping[str, Any]:  # Any: foreign JSON
    found = response.get(member) if isinstance(response, dict) else None
    if not isinstance(found, list) or not found or not isinstance(found[0], dict):
        raise InvalidAnswer(f"it has no {member}")
    first: Mapping[str, Any] = found[0]  # Any: foreign JSON
    return first


def _by_index(response: Any, member: str, *, records: int) -> list[Mapping[str, Any]]:  # Any: foreign JSON
    found = response.get(member) if isinstance(response, dict) else None
    items = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    placed = {one.get("index", at): one for at, one in enumerate(items)}
    if len(items) != records or set(placed) != set(range(records)):
        raise InvalidAnswer(f"it has {len(items)} members of {member} for {records}, or not one for each index")
    return [placed[at] for at in range(records)]


def _vector_of(value: Any) -> list[float]:  # Any: foreign JSON
    if not isinstance(value, list) or not value:
        raise InvalidAnswer("an embedding is not a list of numbers")
    return [_number(one) for one in value]


def _number(value: Any) -> float:  # Any: foreign JSON
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise InvalidAnswer("a number is missing, or not finite")
    return value


def _string(found: Mapping[str, Any], name: str) -> str | None:  # Any: foreign JSON
    value = found.get(name)
    return value if isinstance(value, str) else None
