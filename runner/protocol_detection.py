"""Finds the protocol of a model server whose config names none: by the URL, or by asking the server.

Asked are the model's metadata of V2, its status of V1, and the list of models of OpenAI's API, each once. Without an answer the
protocol is the default, whose own requests then report what is wrong.
"""

import logging
from collections.abc import Iterator
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit, urlunsplit

import orjson

from inferrun.contract import Model
from inferrun.plugins import Fault, ModelContext, RunnerError
from runner.model_server import ModelServer, open_model_server
from runner.protocol_name import named_protocol

_log = logging.getLogger(__name__)

_IN_PATHS: Final = {
    "v2": ("/v2/models/",),
    "openai": ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses"),
    "v1": ("/v1/models/", ":predict"),
}

_MEMBERS: Final = {
    "v2": ("inputs", "versions", "platform"),
    "v1": ("model_version_status", "ready"),
    "openai": ("data",),
}
"""Members of the answers, at least one of which is there."""


async def with_protocol(model: Model, context: ModelContext) -> Model:
    """Return the model with its protocol."""
    if named_protocol(model)[1] or (parts := _parts_of(model)) is None:
        return model
    found = protocol_in(parts)
    if not found:
        async with open_model_server(model, urlunsplit(parts), context) as server:
            found = await _ask(server, list(_questions(parts, model.model_name)))
    if not found:
        return model
    _log.info("the protocol was found", extra={"protocol": found})
    return model.model_copy(update={"protocol_version": found})


def protocol_in(parts: SplitResult) -> str:
    """Return the protocol that a URL shows; empty if it shows none."""
    return next((name for name, known in _IN_PATHS.items() if any(one in parts.path for one in known)), "")


def _parts_of(model: Model) -> SplitResult | None:
    """The parts of the URL; None if the default protocol reports what is wrong with it."""
    given = model.model_url.strip()
    try:
        parts = urlsplit(given if "://" in given else f"http://{given}")
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if is_valid else None


def _questions(parts: SplitResult, model_name: str) -> Iterator[tuple[str, str]]:
    """Yield protocols and URLs."""
    path = parts.path.rstrip("/").removesuffix("/models").removesuffix("/v1").removesuffix("/v2")

    def url(end: str) -> str:
        return urlunsplit((parts.scheme, parts.netloc, f"{path}{end}", parts.query, ""))

    if model_name:
        name = quote(model_name, safe="")
        yield "v2", url(f"/v2/models/{name}")
        yield "v1", url(f"/v1/models/{name}")
    yield "openai", url("/v1/models")


async def _ask(server: ModelServer, questions: list[tuple[str, str]]) -> str:
    for name, url in questions:
        try:
            response = await server.send("GET", url)
        except (Fault, RunnerError):
            return ""
        if response.status == 200 and _is_answer(response.body, _MEMBERS[name]):
            return name
    return ""


def _is_answer(body: bytes, members: tuple[str, ...]) -> bool:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(found, dict) and any(one in found for one in members)
