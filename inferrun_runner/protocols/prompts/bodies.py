"""The requests that are made of records: the path, and the members of the body for each task.
Pure."""

import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from inferrun.contract import Request, RequestImage
from inferrun.formats.bytes_in_json import bytes_in
from inferrun.plugins import ContractError
from inferrun_runner.protocols.prompts.templates import InvalidRecord, Row, Templates, json_text

Members = dict[str, Any]  # Any: JSON


@dataclass(frozen=True, slots=True)
class TaskKind:
    """How a task is called in OpenAI's API."""

    path: str
    prompt: str
    """The member with the prompt."""

    max_tokens: str = ""
    """The member with the maximum number of tokens; empty: the task has none."""

    has_messages: bool = False
    is_batched: bool = False
    """Whether a request may have several records."""


TASKS: Final = {
    "Chat": TaskKind("/v1/chat/completions", "messages", "max_tokens", has_messages=True),
    "Completion": TaskKind("/v1/completions", "prompt", "max_tokens"),
    "Response": TaskKind("/v1/responses", "input", "max_output_tokens", has_messages=True),
    "Embedding": TaskKind("/v1/embeddings", "input", is_batched=True),
    "Rerank": TaskKind("/v1/rerank", "query"),
    "Score": TaskKind("/v1/score", "text_1"),
    "Moderation": TaskKind("/v1/moderations", "input", is_batched=True),
}

DOCUMENTS: Final = {"Rerank": "documents", "Score": "text_2"}
"""The member with what is compared with the prompt."""

_FIELD: Final = "request"


class Bodies:
    """Makes the bodies of the requests of a contract, whose fields fit together. The constructor
    raises ContractError."""

    def __init__(self, request: Request, templates: Templates, *, model: str, system: str) -> None:
        self.task = TASKS[request.task]
        self._request = request
        self._further = templates.value(request.body, field=f"{_FIELD}.body")
        if self.task.is_batched and templates.columns != ():
            raise ContractError(
                f"{_FIELD}.body: reads columns, but a request of task {request.task} has several records; only params and run are "
                "allowed in it"
            )
        self._system = templates.constant(system, field=f"{_FIELD}.system") if system else ""
        self._prompt = templates.text(request.prompt, field=f"{_FIELD}.prompt")
        self._messages = [
            (one.role, templates.text(one.content, field=f"{_FIELD}.messages.{at}.content"))
            for at, one in enumerate(request.messages)
        ] or [("user", self._prompt)]
        templates.read(*(image.column for image in request.images))
        if request.documents_column:
            templates.read(request.documents_column)
        self._constant = self._constant_members(model)

    @property
    def path(self) -> str:
        """The path and query of the request."""
        return self._request.path or self.task.path

    def body_of(self, row: Row) -> Members:
        """Return the body for a record. Raises InvalidRecord."""
        members = {**self._constant, self.task.prompt: self._prompt_member(row)}
        if name := self._request.documents_column:
            members[DOCUMENTS[self._request.task]] = self._documents(row[name])
        members |= self._further(row)
        json_text(members)
        return members

    def joined(self, bodies: Sequence[Members]) -> Members:
        """Return the body for several records of a batched task."""
        return {
            **bodies[0],
            self.task.prompt: [text for one in bodies for text in one[self.task.prompt]],
        }

    def _constant_members(self, model: str) -> Members:
        request, members = self._request, Members()
        if model:
            members["model"] = model
        if self._system and request.task == "Response":
            members["instructions"] = self._system
        if request.max_tokens:
            members[self.task.max_tokens] = request.max_tokens
        if request.response_schema:
            named = {"name": "answer", "schema": request.response_schema}
            if request.task == "Response":
                members["text"] = {"format": {"type": "json_schema", **named}}
            else:
                members["response_format"] = {"type": "json_schema", "json_schema": named}
        return members

    def _prompt_member(self, row: Row) -> str | list[str] | list[Members]:
        request = self._request
        if self.task.is_batched:
            return [self._prompt(row)]
        is_text = request.task == "Response" and not (request.messages or request.images)
        if is_text or not self.task.has_messages:
            return self._prompt(row)
        messages = [Members(role=role, content=content(row)) for role, content in self._messages]
        urls = [
            (image, url) for image in request.images for url in _urls_of(row[image.column], image)
        ]
        if urls:
            last = next(one for one in reversed(messages) if one["role"] == "user")
            last["content"] = self._parts(last["content"], urls)
        if self._system and request.task == "Chat":
            messages.insert(0, {"role": "system", "content": self._system})
        return messages

    def _parts(self, text: str, urls: Sequence[tuple[RequestImage, str]]) -> list[Members]:
        """Return the parts of a message with images."""
        images = [(url, {"detail": image.detail} if image.detail else {}) for image, url in urls]
        if self._request.task == "Response":
            shown = [{"type": "input_image", "image_url": url, **detail} for url, detail in images]
            return [{"type": "input_text", "text": text}, *shown]
        parts = [
            {"type": "image_url", "image_url": {"url": url, **detail}} for url, detail in images
        ]
        return [{"type": "text", "text": text}, *parts]

    def _documents(self, value: object) -> list[str] | str:
        match self._request.task, value:
            case "Score", str():
                return value
            case "Rerank", list() if value and all(isinstance(one, str) for one in value):
                return value
        expected = (
            "a list of texts with at least one" if self._request.task == "Rerank" else "a text"
        )
        raise InvalidRecord(f"column {self._request.documents_column!r} must be {expected}")


def encoded(members: Members) -> bytes:
    """Return a body as JSON. Raises InvalidRecord for a value that JSON does not have."""
    return json_text(members).encode()


_KINDS: Final = {
    re.compile(rb"\x89PNG"): "png",
    re.compile(rb"\xff\xd8\xff"): "jpeg",
    re.compile(rb"GIF8"): "gif",
    re.compile(rb"RIFF....WEBP", re.DOTALL): "webp",
}


_URLS: Final = ("http://", "https://", "data:image/")


def _urls_of(value: object, image: RequestImage) -> list[str]:
    """Return the URLs of the images of a value, or their data as such; none only if it is null or
    an empty list.

    Raises InvalidRecord for everything that is no image in a known form: a prompt is never sent
    without an image of its record.
    """
    if value is None:
        return []
    try:
        return [_url_of(one) for one in (value if isinstance(value, list) else [value])]
    except ValueError as fault:
        raise InvalidRecord(
            f"column {image.column!r} has {fault}; allowed are PNG, JPEG, GIF and WebP, as bytes or base64, http URLs, "
            "structs of bytes and path, objects with a url, and lists of these"
        ) from fault


def _url_of(value: object) -> str:
    """Return the URL of one image, or its data as one. Raises ValueError with what is there
    instead."""
    match value:
        case str() if value.startswith(_URLS):
            return value
        case bytes() | str():
            text = b64encode(value).decode() if isinstance(value, bytes) else value
            try:
                head = b64decode(text[:16])
            except ValueError:
                head = b""
            for pattern, kind in _KINDS.items():
                if pattern.match(head):
                    return f"data:image/{kind};base64,{text}"
        case {"url": str(url), **others} if not others and url.startswith(_URLS):
            return url
        case {"bytes": None, "path": str(path), **others} if not others and not path.startswith(
            _URLS
        ):
            raise ValueError(
                "the path of an image without its bytes, and paths cannot be read here"
            )
        # The struct of datasets (Hugging Face) 5.2.0, which takes a path that is a URL from there.
        case {"bytes": content, **others} if set(others) <= {"path"}:
            return _url_of(others.get("path") if content is None else content)
        case dict() if (found := bytes_in(value)) is not None:
            return _url_of(found)
    raise ValueError(
        "no image" if value is not None else "null among its images, or in place of one"
    )
