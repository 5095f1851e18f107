"""The certificates that connections need, besides the authorities of the image: those of the
config's CA bundle for all of them, and those of an object of KServe, or of the Secret with the
credentials, for the model server.
"""

import os
import ssl
import tempfile
from pathlib import Path
from typing import Final

from inferrun.contract import Model
from inferrun.plugins import ContractError
from inferrun_runner.network.model_credentials import FOLDER

IMAGE_AUTHORITIES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
"""Where Debian, and therefore the image, has them in one file."""

VARIABLES: Final = ("SSL_CERT_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", "REQUESTS_CA_BUNDLE")
"""Name the file with the authorities: for OpenSSL and the S3 client, for gRPC, and for the exporter
of traces."""

CA_FOLDER = "model-ca"
"""Below the folder of the endpoints: the mounted authorities of the model server."""


def trust(bundle: Path | None, *, folder: Path) -> None:
    """Make all connections of this process trust the certificates in that file too; call it before
    the first one.

    Every TLS library in the process finds its authorities through the environment, in one file,
    which is written to `folder`. Raises ContractError if the file contains no certificate.
    """
    if bundle is None:
        return
    try:
        ssl.create_default_context().load_verify_locations(cafile=bundle)
        known = IMAGE_AUTHORITIES.read_bytes() if IMAGE_AUTHORITIES.exists() else b""
        with tempfile.NamedTemporaryFile(dir=folder, suffix=".crt", delete=False) as combined:
            combined.write(known + b"\n" + bundle.read_bytes())
    except (ssl.SSLError, OSError) as error:
        raise ContractError(
            f"spec.caBundle: the certificates in the ConfigMap cannot be read: {error}"
        ) from error
    os.environ.update(dict.fromkeys(VARIABLES, combined.name))


def context_of(model: Model, endpoints: Path) -> ssl.SSLContext | None:
    """What to verify the server with, and the certificate to show; None for the authorities of the
    image.

    Raises ContractError if one is not a certificate.
    """
    own, certificate = _own_authorities(model, endpoints), _client_certificate_files(endpoints)
    if not own and not certificate:
        return None
    context = ssl.create_default_context()
    if certificate:
        try:
            context.load_cert_chain(*certificate, password=lambda: "")
        except (ssl.SSLError, OSError, ValueError) as error:
            reason = (
                error.reason
                if isinstance(error, ssl.SSLError) and error.reason
                else type(error).__name__
            )
            raise ContractError(
                f"kserve.credentialsRef: tls.crt and tls.key cannot be used: {reason}"
            ) from error
    try:
        for text in own:
            context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError) as error:
        raise _unreadable(error) from error
    return context


def root_certificates_of(model: Model, endpoints: Path) -> bytes | None:
    """The certificates for gRPC, in PEM: all authorities to trust, because gRPC's own ones are
    replaced by them."""
    context_of(model, endpoints)
    own = _own_authorities(model, endpoints)
    if not own:
        return None
    known = Path(os.environ.get(VARIABLES[0], IMAGE_AUTHORITIES))
    texts = [known.read_text(encoding="utf-8")] if known.exists() else []
    return "\n".join([*texts, *own]).encode()


def client_certificate_of(endpoints: Path) -> tuple[bytes, bytes] | None:
    """Return the key and the certificate to show to the model server, in PEM; None if the Secret
    has no certificate."""
    found = _client_certificate_files(endpoints)
    return (found[1].read_bytes(), found[0].read_bytes()) if found else None


def _client_certificate_files(endpoints: Path) -> tuple[Path, Path] | None:
    files = endpoints / FOLDER / "tls.crt", endpoints / FOLDER / "tls.key"
    found = [file.exists() for file in files]
    if any(found) and not all(found):
        raise ContractError(
            "kserve.credentialsRef: the Secret has only one of tls.crt and tls.key; both are required"
        )
    return files if all(found) else None


def _own_authorities(model: Model, endpoints: Path) -> list[str]:
    """The certificates of the model's own authorities, in PEM: those of KServe's object, mounted
    ones, that of the Secret."""
    given = model.service.ca_certificates if model.service is not None else ""
    folder, secret = endpoints / CA_FOLDER, endpoints / FOLDER / "ca.crt"
    try:
        mounted = (
            [file.read_text(encoding="ascii") for file in sorted(folder.glob("*.crt"))]
            if folder.is_dir()
            else []
        )
    except (ValueError, OSError) as error:
        raise _unreadable(error) from error
    authority = ""
    if secret.exists():
        try:
            authority = secret.read_text(encoding="ascii")
            ssl.create_default_context().load_verify_locations(cadata=authority)
        except (ssl.SSLError, ValueError, OSError) as error:
            raise ContractError(
                "kserve.credentialsRef: key ca.crt is not a PEM certificate"
            ) from error
    return [text for text in (given, *mounted, authority) if text]


def _unreadable(error: Exception) -> ContractError:
    return ContractError(
        f"kserve.serviceRef: the certificates of the model server cannot be read: {error}"
    )
