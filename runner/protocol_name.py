"""Which protocol a contract or a URL names. Pure."""

from typing import Final
from urllib.parse import SplitResult

import orjson

from inferrun.contract import Model

DEFAULT_PROTOCOL = "v2"

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


def named_protocol(model: Model) -> tuple[str, str]:
    """Return the protocol and the field that names it, empty if it is the default. Krateo's configs name it in `modelVersion`."""
    named = {"kserve.protocolVersion": model.protocol_version, "kserve.modelVersion": model.model_version}
    field, name = next(((field, name) for field, name in named.items() if name.strip()), ("", DEFAULT_PROTOCOL))
    return name.strip().lower(), field


def protocol_of(model: Model) -> str:
    """Return the protocol."""
    return named_protocol(model)[0]


def protocol_in(parts: SplitResult) -> str:
    """Return the protocol that a URL shows; empty if it shows none."""
    return next((name for name, known in _IN_PATHS.items() if any(one in parts.path for one in known)), "")


def is_answer(body: bytes, *, protocol: str) -> bool:
    """Return whether this is what a server of that protocol says about a model, or about its models."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return isinstance(found, dict) and any(one in found for one in _MEMBERS[protocol])
