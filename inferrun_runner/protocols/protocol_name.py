"""Which protocols a contract, a URL or the answer of a server names. Pure."""

from typing import Any, Final

import orjson

from inferrun.contract import Model
from inferrun_runner.protocols.model_urls import protocol_in

V2: Final = "v2"
DEFAULT_PROTOCOL: Final = V2
OPENAI: Final = "openai"

_MEMBERS: Final = {
    "v2": ("inputs", "versions", "platform"),
    "v1": ("model_version_status", "ready"),
    OPENAI: ("data",),
}
"""Members of the answers, at least one of which is there."""


def named_protocol(model: Model) -> tuple[str, str]:
    """Return the protocol and the field that names it, empty if it is the default. Krateo's configs
    name it in `modelVersion`."""
    named = {
        "kserve.protocolVersion": model.protocol_version,
        "kserve.modelVersion": model.model_version,
    }
    field, name = next(
        ((field, name) for field, name in named.items() if name.strip()), ("", DEFAULT_PROTOCOL)
    )
    return name.strip().lower(), field


def protocol_of(model: Model) -> str:
    """Return the protocol."""
    return named_protocol(model)[0]


def candidates(model: Model) -> tuple[Model, ...]:
    """The model with each protocol that its server may have: only one if the config or the URL
    shows it. Raises ContractError."""
    if named_protocol(model)[1]:
        return (model,)
    shown = protocol_in(model.model_url)
    names = (
        (shown,)
        if shown
        else tuple(name for name in ("v2", "v1", OPENAI) if name == OPENAI or model.model_name)
    )
    return tuple(model.model_copy(update={"protocol_version": name}) for name in names)


def is_answer(body: bytes, *, protocol: str) -> bool:
    """Return whether this is what a server of that protocol says about a model, or about its
    models."""
    found = object_in(body)
    return any(one in found for one in _MEMBERS[protocol])


def object_in(body: bytes) -> dict[str, Any]:  # Any: foreign JSON
    """Return the JSON object of an answer; empty if it is something else."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}
