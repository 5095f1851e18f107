"""The certificate authorities that connections need, besides those of the image: those of the config's CA bundle for all of them,
and those of an object of KServe for its model server.
"""

import os
import ssl
import tempfile
from pathlib import Path
from typing import Final

from inferrun.contract import Model
from inferrun.plugins import ContractError

IMAGE_AUTHORITIES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
"""Where Debian, and therefore the image, has them in one file."""

VARIABLES: Final = ("SSL_CERT_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH")
"""Name the file with the authorities: for OpenSSL and the S3 client, and for gRPC."""

CA_FOLDER = "model-ca"
"""Below the folder of the endpoints: the mounted authorities of the model server."""


def trust(bundle: Path | None, *, folder: Path) -> None:
    """Make all connections of this process trust the certificates in that file too; call it before the first one.

    Every TLS library in the process finds its authorities through the environment, in one file, which is written to `folder`.
    Raises ContractError if the file contains no certificate.
    """
    if bundle is None:
        return
    try:
        ssl.create_default_context().load_verify_locations(cafile=bundle)
        known = IMAGE_AUTHORITIES.read_bytes() if IMAGE_AUTHORITIES.exists() else b""
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".crt", delete=False) as combined:
            combined.write(known + b"\n" + bundle.read_bytes())
    except (ssl.SSLError, OSError) as error:
        raise ContractError(f"spec.caBundle: the certificates in the ConfigMap cannot be read: {error}") from error
    os.environ.update(dict.fromkeys(VARIABLES, combined.name))


def context_of(model: Model, endpoints: Path) -> ssl.SSLContext | None:
    """What to verify the server with; None for the authorities of the image. Raises ContractError if one is no certificate."""
    own = _own_authorities(model, endpoints)
    if not own:
        return None
    context = ssl.create_default_context()
    try:
        for text in own:
            context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise _unreadable(error) from error
    return context


def root_certificates_of(model: Model, endpoints: Path) -> bytes | None:
    """The same for gRPC, in PEM: all authorities to trust, because gRPC's own ones are replaced by them."""
    if context_of(model, endpoints) is None:
        return None
    known = Path(os.environ.get(VARIABLES[0], IMAGE_AUTHORITIES))
    texts = [known.read_text(encoding="utf-8")] if known.exists() else []
    return "\n".join([*texts, *_own_authorities(model, endpoints)]).encode()


def _own_authorities(model: Model, endpoints: Path) -> list[str]:
    """The certificates of the model's own authorities, in PEM."""
    given = model.service.ca_certificates if model.service is not None else ""
    folder = endpoints / CA_FOLDER
    try:
        mounted = [file.read_text(encoding="ascii") for file in sorted(folder.glob("*.crt"))] if folder.is_dir() else []
    except (ValueError, OSError) as error:
        raise _unreadable(error) from error
    return [text for text in (given, *mounted) if text]


def _unreadable(error: Exception) -> ContractError:
    return ContractError(f"kserve.serviceRef: the certificates of the model server cannot be read: {error}")
