"""Finds the protocol of a model server whose config names none: by the URL, or by asking the server.

Asked are the model's metadata of V2, its status of V1, and the list of models of OpenAI's API, each once. Without an answer the
protocol is the default, whose own requests then report what is wrong.
"""

import logging
from collections.abc import Iterator
from urllib.parse import SplitResult, quote, urlsplit, urlunsplit

from inferrun.contract import Model
from inferrun.plugins import Fault, ModelContext, RunnerError
from runner.model_server import ModelServer, open_model_server
from runner.protocol_name import is_answer, named_protocol, protocol_in

_log = logging.getLogger(__name__)


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
        if response.status == 200 and is_answer(response.body, protocol=name):
            return name
    return ""
