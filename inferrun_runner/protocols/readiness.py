"""What an answer of a model server says about its readiness. Pure.

A server that can be reached is not ready before it says so about the model itself: an object of
KServe is ready before its model is loaded, and a proxy in front of it answers while nothing is
behind it.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from inferrun.contract import Model
from inferrun_runner.protocols.model_urls import description_url
from inferrun_runner.protocols.protocol_name import OPENAI, is_answer, object_in, protocol_of

REACHABLE: Final = frozenset({401, 403, 429})
"""The server asks for credentials, which the probe does not have, or is busy: it is awake."""

UNLISTED: Final = frozenset({404, 405, 501})
"""The server does not know the path. Not every server with OpenAI's API lists its models."""

GRPC: Final = "grpc-v2"
PROBED: Final = ("v1", "v2", OPENAI)
"""Protocols that say over HTTP whether a model is ready; of a server with another one it is only
known that it answers. gRPC has a call for it."""

ASLEEP: Final = frozenset({502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether the model answers, and the answer, for people."""

    is_ready: bool
    seen: str
    is_unknown_path: bool = False
    """The server does not know the path: the model is not loaded, or the server has another
    protocol."""


def probe_url(model: Model) -> str:
    """The URL that says whether the model is ready. Raises ContractError."""
    protocol = protocol_of(model)
    if protocol not in PROBED:
        parts = urlsplit(
            model.model_url if "://" in model.model_url else f"http://{model.model_url}"
        )
        return urlunsplit(
            ("https" if parts.scheme in ("https", "grpcs") else "http", parts.netloc, "/", "", "")
        )
    url = description_url(protocol, model.model_url, model.model_name)
    parts = urlsplit(url)
    return parts._replace(path=f"{parts.path}/ready").geturl() if protocol == "v2" else url


def judge(model: Model, *, status: int, body: bytes) -> Readiness:
    """What an answer to the probe says."""
    protocol, is_unknown = protocol_of(model), status in UNLISTED
    if status in REACHABLE:
        return Readiness(is_ready=True, seen=f"status {status}, so the server is reachable")
    if protocol not in PROBED:
        return Readiness(is_ready=status not in ASLEEP, seen=f"status {status}")
    if protocol == OPENAI and is_unknown:
        return Readiness(
            is_ready=True, seen=f"status {status}: the server does not list its models"
        )
    if status != 200:
        return Readiness(is_ready=False, seen=f"status {status}", is_unknown_path=is_unknown)
    answer = object_in(body)
    if protocol == OPENAI:
        listed, name = answer.get("data"), model.model_name
        names = (
            [one.get("id") for one in listed if isinstance(one, dict)]
            if isinstance(listed, list)
            else []
        )
        is_listed = name in names or f"{name}:latest" in names  # Ollama lists `tiny` with its tag
        is_ready = not name or is_listed or not isinstance(listed, list)
        seen = "the model is listed" if is_listed else "status 200"
        unready = f"status 200, but the server does not list the model {name!r}"
    else:
        # V2 answers with an empty body or `{"ready": true}`, V1 with `{"name": …, "ready": true}`;
        # older ones with "True"
        is_ready = str(answer.get("ready", True)).lower() == "true"
        seen, unready = "the model is ready", "status 200, but the model is not ready"
    return Readiness(is_ready=is_ready, seen=seen if is_ready else unready)


def judge_guess(model: Model, *, status: int, body: bytes) -> Readiness:
    """What an answer to the probe says if another server than one of this protocol may have sent
    it."""
    finding = judge(model, status=status, body=body)
    if status in REACHABLE or is_answer(body, protocol=protocol_of(model)):
        return finding
    return Readiness(is_ready=False, seen=finding.seen, is_unknown_path=True)
