"""`spec.request`: how a record becomes one request to a language model or another server, and its
response columns.

Only what the API calls differently per task, or what the runner itself has to know, has a field.
Everything else is a member of `body` under the name that the API has for it.
"""

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, JsonValue

from inferrun.fields.problems import Problem, invalid
from inferrun.fields.resource_model import ResourceModel
from inferrun.fields.scalars import ResourceName
from inferrun.fields.type_names import TYPE_NAME

HTTP: Final = "http"
"""The protocol of servers to which any JSON is posted."""

MAX_TEMPLATE: Final = 65_536
MAX_SCHEMA_BYTES: Final = 32 * 1024
MAX_BODY_BYTES: Final = 64 * 1024

Template = Annotated[str, Field(min_length=1, max_length=MAX_TEMPLATE)]
Column = Annotated[str, Field(min_length=1, max_length=256)]


class Task(StrEnum):
    """What the server is asked for, with the paths and members of OpenAI's API and of vLLM."""

    CHAT = "Chat"
    COMPLETION = "Completion"
    RESPONSE = "Response"
    EMBEDDING = "Embedding"
    RERANK = "Rerank"
    SCORE = "Score"
    MODERATION = "Moderation"


class MessageRole(StrEnum):
    """Who says a message."""

    SYSTEM = "system"
    DEVELOPER = "developer"
    USER = "user"
    ASSISTANT = "assistant"


class Detail(StrEnum):
    """How closely the model looks at an image."""

    AUTO = "auto"
    LOW = "low"
    HIGH = "high"


class Message(ResourceModel):
    """A message of a conversation."""

    role: MessageRole
    """Who says it: system, developer, user or assistant."""

    content: Template
    """What is said; a template over the columns of the record."""


class ImageColumn(ResourceModel):
    """A column with an image per record, which is part of the last message of the user."""

    column: Column
    """Name of the column. Its values are the bytes of an image, their base64, a URL, an object with
    a url, a struct of bytes and path, or a list of these; null: no image."""

    detail: Detail | None = None
    """How closely the model looks at it. Default: that of the server."""


class ConfigMapKeyRef(ResourceModel):
    """One key of a ConfigMap."""

    name: ResourceName
    """Name of a ConfigMap in the namespace of the run."""

    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]
    """Its key."""


class SystemSource(ResourceModel):
    """Where the system message is."""

    config_map_key_ref: ConfigMapKeyRef
    """Key of a ConfigMap whose text is the system message. A run waits until it exists."""


class ResponseOutput(ResourceModel):
    """A value of the response that becomes a member of the prediction."""

    name: Column
    """Its name in the prediction."""

    path: Annotated[str, Field(max_length=1024, pattern=r"^(/.*)?$")]
    """JSON pointer (RFC 6901) to it in the response, such as /result/0/score; empty: the whole
    response."""

    type: Annotated[str, Field(min_length=1, max_length=256), TYPE_NAME]
    """Its type in Arrow, such as string, int64, double, bool, list<float>, or json for a text with
    any JSON."""


class RequestTemplate(ResourceModel):
    """How records become requests, with the protocols openai and http."""

    task: Task | None = None
    """What the server is asked for: Chat (the default), Completion, Response, Embedding, Rerank,
    Score or Moderation. Only with the protocol openai."""

    prompt: Template | None = None
    """Template in the syntax of Jinja2, in which the columns of the record are variables, such as
    {{ title }}, and params, run and row are objects with the parameters of the run, its id and
    interval, and all columns. It is the last message of the user, the text to complete or embed, or
    the query of Rerank and Score."""

    system: Template | None = None
    """System message, with params and run as only variables: it is the same for all records."""

    system_from: SystemSource | None = None
    """Where the system message is, instead of system. It is a template, too."""

    messages: Annotated[tuple[Message, ...], Field(min_length=1, max_length=64)] | None = None
    """Messages of a conversation, instead of prompt."""

    images: Annotated[tuple[ImageColumn, ...], Field(max_length=16)] | None = None
    """Columns with images, which are part of the last message of the user."""

    documents_column: Column | None = None
    """Column with the documents that are compared with the query: a list of texts for Rerank, a
    text for Score."""

    max_tokens: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Maximum number of tokens of an answer: max_tokens, or max_output_tokens of Response."""

    response_schema: Annotated[dict[str, JsonValue], Field(max_length=64)] | None = None
    """JSON schema of the answer, of type object. The server is asked to follow it, every answer is
    validated, and the properties become columns of the prediction. At most 32 KiB."""

    response_retries: Annotated[int, Field(ge=0, le=10)] | None = None
    """How often a record whose answer does not follow responseSchema is asked again, before it is
    an error. Default: 2."""

    body: Annotated[dict[str, JsonValue], Field(max_length=64)] | None = None
    """Further members of the request under the API's own names, such as temperature, stop, tools or
    logprobs; they replace those that the runner sets. With the protocol http, the whole request.
    Strings are templates; one that is a single expression, such as "{{ age }}", has the type of its
    value. At most 64 KiB."""

    path: Annotated[str, Field(min_length=1, max_length=2048, pattern=r"^/\S*$")] | None = None
    """Path of the request, with or without a query, such as
    /openai/deployments/x/chat/completions?api-version=2024-10-21. Default: that of the task; with
    the protocol http, that of kserve.modelUrl."""

    outputs: Annotated[tuple[ResponseOutput, ...], Field(min_length=1, max_length=64)] | None = None
    """Values of the response that become members of the prediction. Required with the protocol
    http; with openai, further ones."""


WITH_MESSAGES: Final = (Task.CHAT, Task.RESPONSE)
WITH_TEXT: Final = (*WITH_MESSAGES, Task.COMPLETION)
WITH_DOCUMENTS: Final = (Task.RERANK, Task.SCORE)
_ONLY_WITH: Final = {
    "messages": WITH_MESSAGES,
    "images": WITH_MESSAGES,
    "system": WITH_MESSAGES,
    "systemFrom": WITH_MESSAGES,
    "maxTokens": WITH_TEXT,
    "responseSchema": WITH_TEXT,
    "documentsColumn": WITH_DOCUMENTS,
}
"""The tasks that have a field."""

_OF_HTTP: Final = ("path", "body", "outputs")


def request_problems(request: RequestTemplate, *, protocol: str) -> Iterator[Problem]:
    """What is wrong with the fields together. The syntax of templates is not known here; the runner
    checks the same, and that."""
    given = request.to_manifest()
    if protocol == HTTP:
        yield from _http_problems(given)
        return
    task = request.task or Task.CHAT
    for name, tasks in _ONLY_WITH.items():
        if name in given and task not in tasks:
            allowed = f"not allowed with the task {task}; it is for {', '.join(tasks)}"
            yield invalid(f"spec.request.{name}", given[name], allowed)
    required = ["documentsColumn"] if task in WITH_DOCUMENTS else []
    required += [] if "messages" in given else ["prompt"]
    for name in required:
        if name not in given:
            yield invalid(f"spec.request.{name}", None, f"required by the task {task}")
    for one, other in (("prompt", "messages"), ("system", "systemFrom")):
        if one in given and other in given:
            allowed = f"but spec.request.{other} is set, too; set only one of them"
            yield invalid(f"spec.request.{one}", given[one], allowed)
    roles = {one.role for one in request.messages or ()}
    if "images" in given and roles and MessageRole.USER not in roles:
        yield invalid(
            "spec.request.images",
            given["images"],
            "but no message is of the user, of which they are part",
        )
    kind = (request.response_schema or {"type": "object"}).get("type")
    if kind != "object":
        yield invalid(
            "spec.request.responseSchema.type",
            kind,
            "must be object, whose properties become columns",
        )
    for name, allowed_value in (("stream", False), ("n", 1)):
        if (value := (request.body or {}).get(name)) not in (None, allowed_value):
            allowed = f"must be {json.dumps(allowed_value)}: a record has one answer"
            yield invalid(f"spec.request.body.{name}", value, allowed)


def _http_problems(given: Mapping[str, JsonValue]) -> Iterator[Problem]:
    for name in sorted(given.keys() - set(_OF_HTTP)):
        allowed = f"not allowed with the protocol http, which has {', '.join(_OF_HTTP)}"
        yield invalid(f"spec.request.{name}", given[name], allowed)
    for name in ("body", "outputs"):
        if name not in given:
            yield invalid(f"spec.request.{name}", None, "required with the protocol http")
