"""The certificate authorities that a model server's address needs, besides those of the image."""

import ssl
from pathlib import Path

from inferrun.contract import Model
from inferrun.plugins import ContractError

CA_FOLDER = "model-ca"
"""Below the folder of the endpoints: the mounted authorities of the model server."""


def context_of(model: Model, endpoints: Path) -> ssl.SSLContext | None:
    """What to verify the server with; None for the authorities of the image. Raises ContractError if one is no certificate."""
    given = model.service.ca_certificates if model.service is not None else ""
    files = sorted((endpoints / CA_FOLDER).glob("*.crt")) if (endpoints / CA_FOLDER).is_dir() else []
    if not given and not files:
        return None
    context = ssl.create_default_context()
    try:
        if given:
            context.load_verify_locations(cadata=given)
        for file in files:
            context.load_verify_locations(cadata=file.read_text(encoding="ascii"))
    except (ssl.SSLError, ValueError, OSError) as error:
        raise ContractError(
            f"kserve.serviceRef: the certificates of the model server cannot be read: {error}"
        ) from error
    return context
