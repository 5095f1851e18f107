"""Which protocol a contract names. Pure."""

from inferrun.contract import Model

DEFAULT_PROTOCOL = "v2"


def named_protocol(model: Model) -> tuple[str, str]:
    """Return the protocol and the field that names it, empty if it is the default. Krateo's configs name it in `modelVersion`."""
    named = {"kserve.protocolVersion": model.protocol_version, "kserve.modelVersion": model.model_version}
    field, name = next(((field, name) for field, name in named.items() if name.strip()), ("", DEFAULT_PROTOCOL))
    return name.strip().lower(), field


def protocol_of(model: Model) -> str:
    """Return the protocol."""
    return named_protocol(model)[0]
