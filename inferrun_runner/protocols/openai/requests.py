"""Requests and responses of OpenAI's API. Pure."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from inferrun.formats.json_spans import Members, load_any, members_of
from inferrun.formats.json_text import text_of
from inferrun.formats.jsonl.line_blocks import BOM
from inferrun.formats.record_keys import key_of
from inferrun.plugins import NO_USAGE, TokenUsage
from inferrun.runner_report import MAX_COUNT
from inferrun.text import one_line
from inferrun_runner.protocols.model_urls import GENERATING, OPENAI_PATHS

_RESULTS = ("choices", "data", "output", "results")
"""The members of responses of which one has the result."""

_WORD: Final = re.compile(r"\w+")
_SHORT_WORD: Final = 3
_REASON_CHARACTERS: Final = 300
_READ_CHARACTERS: Final = 1000
"""The characters of a server's text, each of whose words is searched for in the request."""


_FORM: Final = "the line must be a JSON object with custom_id, method, url and body"


class NotARequest(ValueError):
    """A record that is not a request of OpenAI's Batch API."""


def parse_request(line: bytes, *, model: str) -> tuple[str, bytes]:
    """Return the path and the body of a line of an input file. `model` replaces the model in it, if
    set. Raises NotARequest.

    Everything else of the body is sent as it is in the file.
    """
    return _usual_request(line, model=model) or parse_any_request(line, model=model)


_HEAD: Final = re.compile(
    rb"""[ \t\n\r]*\{[ \t\n\r]*"custom_id"[ \t\n\r]*:[ \t\n\r]*"[^"\\\x00-\x1f]*"[ \t\n\r]*,"""
    rb"""[ \t\n\r]*"method"[ \t\n\r]*:[ \t\n\r]*"POST"[ \t\n\r]*,"""
    rb"""[ \t\n\r]*"url"[ \t\n\r]*:[ \t\n\r]*"([^"\\\x00-\x1f]*)"[ \t\n\r]*,"""
    rb"""[ \t\n\r]*"body"[ \t\n\r]*:[ \t\n\r]*"""
)
"""What nearly all lines begin with: the members in the order of OpenAI's documentation."""

_MODEL: Final = re.compile(rb'"model"[ \t\n\r]*:[ \t\n\r]*("[^"\\]*")')
_ESCAPED_LETTER: Final = re.compile(rb"\\u00[67]")
_BLANKS: Final = b" \t\n\r"
_USUAL_DEPTH: Final = 64
"""The most brackets of a usual body: Python's decoder decides about what is nested deeply."""


def _usual_request(line: bytes, *, model: str) -> tuple[str, bytes] | None:
    """Return what `parse_any_request` does for a valid line in the usual form; None for others."""
    head, end = _HEAD.match(line), line.rfind(b"}")
    if head is None or line[end + 1 :].strip(_BLANKS) or not head[0].isascii():
        return None
    text = line[head.end() : end].rstrip(_BLANKS)
    path, body = _path_of(head[1].decode()), _usual_body(text)
    if path not in OPENAI_PATHS or body is None:
        return None
    if not model:
        return path, text
    named = orjson.dumps(model)
    if "model" not in body:
        return path, b'{"model":%b%b%b' % (named, b"," if body else b"", text[1:])
    found = _MODEL.search(text)
    return found and (path, b"%b%b%b" % (text[: found.start(1)], named, text[found.end(1) :]))


def _usual_body(text: bytes) -> dict[str, Any] | None:  # Any: foreign JSON
    """Return a body whose members model and stream are there once at most, and unescaped."""
    if (
        text.count(b'"model"') > 1
        or text.count(b'"stream"') > 1
        or text.count(b"[") + text.count(b"{") > _USUAL_DEPTH
        or _ESCAPED_LETTER.search(text)
    ):
        return None
    try:
        body = orjson.loads(text)
    except ValueError:
        return None
    is_usual = isinstance(body, dict) and any(body.get("stream") is one for one in (None, False))
    return body if is_usual else None


_ID: Final = re.compile(
    rb"""[ \t\n\r]*\{[ \t\n\r]*"custom_id"[ \t\n\r]*:[ \t\n\r]*"[^"\\\x00-\x1f]*"[ \t\n\r]*,"""
)


def request_key(line: bytes, *, is_any: bool) -> bytes | None:
    """Return the digest of a line of an input file without its id; None if its answer may vary,
    unless it `is_any` that is wanted, and for a line that does not begin with its id.

    Lines with the same key are the same request, if they are one.
    """
    head = _ID.match(line)
    if head is None:
        return None
    rest = line[head.end() :]
    return key_of(rest) if is_any or _is_certain(line, rest) else None


def _is_certain(line: bytes, rest: bytes) -> bool:
    """Whether the answer to a request does not vary."""
    usual = _HEAD.match(line)
    if usual is not None:
        path = _path_of(usual[1].decode(errors="replace"))
        if path not in GENERATING:
            return path in OPENAI_PATHS
        counts = [rest.count(name) for name in (b'"temperature"', b'"seed"')]
        if not any(counts) or max(counts) > 1:  # not all servers take the last one of a name
            return False
    try:
        request = orjson.loads(b"{" + rest)
    except ValueError:
        return False
    url, body = request.get("url"), request.get("body")
    if not (isinstance(url, str) and isinstance(body, dict)):
        return False
    path = _path_of(url)
    return is_certain(body) if path in GENERATING else path in OPENAI_PATHS


def is_certain(body: Mapping[str, Any]) -> bool:  # Any: foreign JSON
    """Whether a language model's answer to a body does not vary: it is sampled with temperature 0 or
    a seed, without tools and earlier conversations."""
    temperature = body.get("temperature")
    is_greedy = type(temperature) in (int, float) and temperature == 0
    return (is_greedy or type(body.get("seed")) is int) and _ACTING.isdisjoint(body)


_ACTING: Final = {
    "tools",
    "functions",
    "web_search_options",
    "conversation",
    "previous_response_id",
}
"""Members of a body whose answer depends on more than the body."""


def _path_of(url: str | None) -> str:
    """Return the path that a line's url means: the batch files of Azure OpenAI have
    /chat/completions."""
    return url if url in OPENAI_PATHS else f"/v1{url}"


def parse_any_request(line: bytes, *, model: str) -> tuple[str, bytes]:
    """Do what `parse_request` does member by member, for each valid line. Raises NotARequest."""
    try:
        found = members_of(line.decode(), within="body")
    except ValueError as error:  # also that of the decoder, and of bytes that are not text
        text = _FORM
        if line.lstrip().startswith(b"{"):
            text = "the line is not valid JSON"
        if isinstance(error.__cause__, RecursionError):
            text = "the line is nested too deeply"
        raise NotARequest(text) from error
    for member in (
        ("custom_id",),
        ("method",),
        ("url",),
        ("body",),
        ("body", "model"),
        ("body", "stream"),
    ):
        if member in found.repeated:
            raise NotARequest(f"{'.'.join(member)} is there twice")
    # The batch files of Mistral have no url; those of Anthropic, Vertex AI, Gemini and Bedrock have
    # other members.
    if missing := [name for name in ("custom_id", "url", "body") if (name,) not in found.spans]:
        raise NotARequest(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing; {_FORM}"
        )
    url = found.string("url")
    if found.string("custom_id") is None:
        raise NotARequest("custom_id must be a string")
    if found.raw("method") and found.string("method") != "POST":
        raise NotARequest("method must be POST")
    path = _path_of(url)
    if path not in OPENAI_PATHS:
        raise NotARequest(f"url must be one of {', '.join(OPENAI_PATHS)}")
    if not found.raw("body").startswith("{"):
        raise NotARequest("body must be a JSON object")
    if found.raw("body", "stream") not in {"", "false", "null"}:
        raise NotARequest("body.stream must be false")
    return path, _body_of(found, model=model).encode()


def _body_of(found: Members, *, model: str) -> str:
    start, end = found.spans["body",]
    if not model:
        return found.text[start:end]
    named = orjson.dumps(model).decode()
    if ("body", "model") in found.spans:
        at, after = found.spans["body", "model"]
        return f"{found.text[start:at]}{named}{found.text[after:end]}"
    has_others = any(len(path) > 1 for path in found.spans)
    return f'{{"model":{named}{"," if has_others else ""}{found.text[start + 1 : end]}'


def parse_response(body: bytes) -> tuple[bytes, TokenUsage]:
    """Return a response on one line and its usage. Raises ValueError if it is not a JSON object, or
    only an error.

    A line break in valid JSON stands between its values, so the line says the same without it.
    """
    value = load_response(body)
    return body.removeprefix(BOM).translate(None, b"\r\n"), usage_of(value)


def load_response(body: bytes) -> dict[str, Any]:  # Any: foreign JSON
    """Return a response, whose numbers may be texts if Python does not have them. Raises ValueError
    as `parse_response`."""
    value = load_any(body.removeprefix(BOM))
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004  callers expect ValueError for invalid responses
    if value.get("error") and not any(value.get(member) for member in _RESULTS):
        raise ValueError("an error in spite of its status")
    return value


def result_text(status: int, request_id: str, body: bytes) -> bytes:
    """Return the member `response` of a result; `body` is JSON on one line."""
    return b'{"status_code":%d,"request_id":%b,"body":%b}' % (
        status,
        orjson.dumps(request_id),
        body,
    )


def error_body(body: bytes) -> bytes:
    """Return the body of a failed response as JSON on one line, whatever the server sent."""
    try:
        return text_of(orjson.loads(body))
    except ValueError:  # also that of orjson
        return orjson.dumps(body[:1000].decode(errors="replace"))


def model_in(request: bytes) -> str:
    """Return the model that a request names; empty if it names none."""
    try:
        found = orjson.loads(request)
    except ValueError:
        return ""
    model = found.get("model") if isinstance(found, dict) else None
    return one_line(model, limit=_REASON_CHARACTERS) if isinstance(model, str) else ""


def reason_of(body: bytes, *, request: bytes) -> str:
    """Return what a server says about why it fails a request, on one line; empty if it says nothing
    that is known how to read.

    Servers repeat records in their errors, also truncated ones. So each word that the request
    contains, too, or that begins or ends one of its words, is replaced; its model's name is not.
    """
    try:
        found = orjson.loads(body)
        sent = "\n".join(("", *set(_words_in(load_any(request))), ""))
    except ValueError:
        return ""
    error = found.get("error", found) if isinstance(found, dict) else None
    if isinstance(error, dict):
        named = (error.get("code"), error.get("type"))
        code = next((one for one in named if isinstance(one, str) and one), None)
        parts = [code, error.get("message", error.get("detail"))]
    else:
        parts = [error]
    text = ": ".join(one for one in parts if isinstance(one, str))[:_READ_CHARACTERS]

    def masked(found: re.Match[str]) -> str:
        word = found[0].casefold()
        parts = (f"\n{word}\n",) if len(word) <= _SHORT_WORD else (f"\n{word}", f"{word}\n")
        return "…" if any(part in sent for part in parts) else found[0]

    return one_line(_WORD.sub(masked, text), limit=_REASON_CHARACTERS)


def _words_in(value: Any) -> Iterator[str]:  # Any: foreign JSON
    """Yield the words of a request, except those of up to three letters, which say nothing."""
    if isinstance(value, dict):
        for key, member in value.items():
            if key != "model":
                yield from _words_in(member)
    elif isinstance(value, list):
        for member in value:
            yield from _words_in(member)
    else:
        words = (word.casefold() for word in _WORD.findall(str(value)))
        yield from (word for word in words if len(word) > _SHORT_WORD or not word.isalpha())


def usage_of(response: Mapping[str, Any]) -> TokenUsage:  # Any: foreign JSON
    """Return the usage. The Responses API names its members differently."""
    found = response.get("usage")
    if not isinstance(found, dict):
        return NO_USAGE
    prompt = _count(found.get("prompt_tokens", found.get("input_tokens")))
    completion = _count(found.get("completion_tokens", found.get("output_tokens")))
    total = _count(found.get("total_tokens")) or _count(prompt + completion)
    return TokenUsage(prompt_tokens=prompt, completion_tokens=completion, total_tokens=total)


def _count(value: Any) -> int:  # Any: foreign JSON
    return min(value, MAX_COUNT) if type(value) is int and value >= 0 else 0
