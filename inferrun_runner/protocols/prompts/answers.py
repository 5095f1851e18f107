"""What the responses to requests say, as the columns of predictions. Pure; pyarrow is imported only
if predictions are typed.

A prediction is an object with the same members for every record: `text`, `finish_reason`, the
tokens, and the properties of the answer's schema; or `embedding`, `scores`, `score`, or `flagged`
with its reasons.
"""

import struct
from base64 import b64decode
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from inferrun.contract import Request
from inferrun.formats.json_pointer import MISSING
from inferrun.plugins import ContractError
from inferrun_runner.protocols.openai.requests import usage_of
from inferrun_runner.protocols.prompts.predictions import JSON, Form, form_of_output

_BASE: Final = {
    "text": "string",
    "finish_reason": "string",
    "prompt_tokens": "int64",
    "completion_tokens": "int64",
}
_ASKED_FOR: Final[dict[str, tuple[str, Form]]] = {
    "logprobs": ("logprobs", [{"token": "string", "logprob": "double"}]),
    "tool_calls": ("tools", [{"name": "string", "arguments": "string"}]),
}
"""Members of a prediction that it has if the body of the request has another member."""

_UNFINISHED: Final = {"failed", "cancelled", "queued", "in_progress"}
"""The statuses of a Response that is no answer."""

_NUMBERS: Final = {int, float, type(None)}
"""The types of what stands for a number in JSON; null is an error of its record."""

_OTHERS: Final[dict[str, dict[str, Form]]] = {
    "Embedding": {"embedding": ["float"]},
    "Rerank": {"scores": ["double"]},
    "Score": {"score": "double"},
    "Moderation": {"flagged": "bool", "categories": JSON, "category_scores": JSON},
}


def required_of(request: Request) -> Collection[str]:
    """Return the members of a prediction in which null does not stand for a number."""
    return _OTHERS.get(request.task, {})


def members_of(request: Request, schema: Form) -> dict[str, Form]:
    """Return the members of a prediction; `schema` is the form of the answer's schema. Raises
    ContractError for a clash."""
    members: dict[str, Form] = dict(_OTHERS.get(request.task) or _BASE)
    if request.task not in _OTHERS:
        members |= {
            name: form for name, (asked, form) in _ASKED_FOR.items() if request.body.get(asked)
        }
    more = dict(schema) if isinstance(schema, dict) else {}
    for name in more.keys() & members:
        raise ContractError(
            f"request.responseSchema.properties.{name}: a prediction has a member of that name in any case; rename the property"
        )
    members |= more
    for at, one in enumerate(request.outputs):
        if one.name in members:
            raise ContractError(
                f"request.outputs.{at}.name: a prediction has a member {one.name!r} in any case"
            )
        members[one.name] = form_of_output(one.type)
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


def text_of(task: str, response: Any, *, limit: object = None) -> Text:  # Any: foreign JSON
    """Return the answer in a response; `limit` is what the body states as the most tokens. Raises
    InvalidAnswer."""
    if task == "Response":
        return _text_of_output(_objects_in(response, "output"), response, limit=limit)
    choices = _objects_in(response, "choices")
    if not choices:
        raise InvalidAnswer("it has no choices")
    choice = choices[0]
    reason, logprobs = _string(choice, "finish_reason"), _logprobs_in(choice.get("logprobs"))
    if task == "Completion":
        if "text" not in choice:
            raise InvalidAnswer("its choice has no text")
        return Text(_string(choice, "text"), reason, logprobs=logprobs)
    message = choice.get("message")
    if not isinstance(message, dict):
        raise InvalidAnswer("its choice has no message")
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(
            text for part in content if isinstance(part, dict) and (text := _string(part, "text"))
        )
    elif not (content is None or isinstance(content, str)):
        raise InvalidAnswer("its message has no text")
    calls = [
        one.get("function") for one in message.get("tool_calls") or () if isinstance(one, dict)
    ]
    return Text(content, reason, _string(message, "refusal") or "", logprobs, _calls_of(calls))


def _text_of_output(
    items: list[dict[str, Any]], response: dict[str, Any], *, limit: object
) -> Text:  # Any: foreign JSON
    if (status := response.get("status")) in _UNFINISHED:
        raise InvalidAnswer(f"its status is {status}")
    parts = [part for one in items for part in one.get("content") or () if isinstance(part, dict)]
    texts = [
        text
        for part in parts
        if part.get("type") == "output_text" and (text := _string(part, "text"))
    ]
    refusals = [
        text
        for part in parts
        if part.get("type") == "refusal" and (text := _string(part, "refusal"))
    ]
    details = response.get("incomplete_details")
    reason = _string(details, "reason") if isinstance(details, dict) else None
    is_cut = "incomplete" in (status, *(one.get("status") for one in items))
    if is_cut or (
        isinstance(limit, int) and 0 < limit <= usage_of(response).completion_tokens
    ):  # llama.cpp says "completed"
        reason = reason or "max_output_tokens"
    tokens = [
        one for part in parts for one in _logprobs_in({"content": part.get("logprobs")}) or ()
    ]
    return Text(
        "".join(texts) if texts else None,
        {"max_output_tokens": "length", None: "stop"}.get(reason, reason),
        "".join(refusals),
        tokens or None,
        _calls_of([one for one in items if one.get("type") == "function_call"]),
    )


def vectors_of(response: Any, *, records: int) -> list[list[float] | None]:  # Any: foreign JSON
    """Return the embeddings of a request with so many records, in their order. Raises
    InvalidAnswer.

    One that is null, or in which null or NaN stands for a number, concerns its record only. With
    the encoding_format base64, they are the base64 of numbers of 32 bits, the lowest byte first.
    """
    vectors: list[Any] = [
        _decoded(one.get("embedding")) for one in _by_index(response, "data", records=records)
    ]
    for one in vectors:
        if one is not None and not (
            isinstance(one, list) and one and set(map(type, one)) <= _NUMBERS
        ):
            raise InvalidAnswer("an embedding is not a list of numbers")
    return vectors


def _decoded(vector: Any) -> Any:  # Any: foreign JSON
    if not isinstance(vector, str):
        return vector
    try:
        raw = b64decode(vector, validate=True)
        return list(struct.unpack(f"<{len(raw) // 4}f", raw))
    except (ValueError, struct.error) as error:  # ValueError is also that of the decoder
        raise InvalidAnswer("an embedding is not the base64 of numbers of 32 bits") from error


def scores_of(response: Any, *, documents: int) -> list[float | None]:  # Any: foreign JSON
    """Return the scores of the documents, in their order; None where there is null. Raises
    InvalidAnswer."""
    ranked = _by_index(response, "results" if "results" in response else "data", records=documents)
    names = ["relevance_score" if "relevance_score" in one else "score" for one in ranked]
    scores = [one.get(name, MISSING) for one, name in zip(ranked, names, strict=True)]
    if not set(map(type, scores)) <= _NUMBERS:
        raise InvalidAnswer("a score is missing, or not a number")
    return scores


def moderations_of(response: Any, *, records: int) -> list[dict[str, Any]]:  # Any: foreign JSON
    """Return the judgement of each record. Raises InvalidAnswer."""
    found = _objects_in(response, "results")
    if len(found) != records:
        raise InvalidAnswer(f"it has no results for {records} records")
    return [{name: one.get(name) for name in _OTHERS["Moderation"]} for one in found]


def _objects_in(response: Any, member: str) -> list[dict[str, Any]]:  # Any: foreign JSON
    found = response.get(member) if isinstance(response, dict) else None
    if not isinstance(found, list):
        raise InvalidAnswer(f"it has no {member}")
    return [one for one in found if isinstance(one, dict)]


# Any: foreign JSON
def _by_index(response: Any, member: str, *, records: int) -> list[dict[str, Any]]:
    items = _objects_in(response, member)
    placed = {one.get("index", at): one for at, one in enumerate(items)}
    if len(items) != records or set(placed) != set(range(records)):
        raise InvalidAnswer(
            f"it has {len(items)} members of {member} for {records}, or not one for each index"
        )
    return [placed[at] for at in range(records)]


def _calls_of(calls: list[Any]) -> list[dict[str, Any]] | None:  # Any: foreign JSON
    names = ("name", "arguments")
    return [
        {name: _string(one, name) for name in names} for one in calls if isinstance(one, dict)
    ] or None


def _logprobs_in(found: Any) -> list[dict[str, Any]] | None:  # Any: foreign JSON
    """Return the tokens of an answer: completions have two lists, chats one."""
    if not isinstance(found, dict):
        return None
    if isinstance(tokens := found.get("tokens"), list):
        pairs = zip(tokens, found.get("token_logprobs") or (), strict=False)
        return [{"token": token, "logprob": number} for token, number in pairs]
    if not isinstance(tokens := found.get("content"), list):
        return None
    return [
        {"token": _string(one, "token"), "logprob": one.get("logprob")}
        for one in tokens
        if isinstance(one, dict)
    ]


def _string(found: Mapping[str, Any], name: str) -> str | None:  # Any: foreign JSON
    value = found.get(name)
    return value if isinstance(value, str) else None
