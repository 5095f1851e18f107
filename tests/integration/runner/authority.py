"""A certificate authority for servers of tests."""

import ssl
import subprocess
from pathlib import Path


def make_authority(folder: Path) -> None:
    """Create a certificate authority with a server and a client certificate."""
    folder.mkdir()
    _openssl(
        folder,
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout authority.key -out authority.pem",
    )
    for name in ("server", "client"):
        _openssl(
            folder,
            f"req -newkey rsa:2048 -nodes -subj /CN={name} -keyout {name}.key -out {name}.csr",
        )
        (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
        signing = "-CA authority.pem -CAkey authority.key -CAcreateserial -days 2 -extfile names"
        _openssl(folder, f"x509 -req -in {name}.csr {signing} -out {name}.pem")


def server_context(authority: Path, *, asks_client: bool = False) -> ssl.SSLContext:
    """TLS of a server with a certificate of the authority, which may require one of the client."""
    context = ssl.create_default_context(
        ssl.Purpose.CLIENT_AUTH, cafile=str(authority / "authority.pem")
    )
    context.load_cert_chain(authority / "server.pem", authority / "server.key")
    context.verify_mode = ssl.CERT_REQUIRED if asks_client else ssl.CERT_NONE
    return context


def _openssl(folder: Path, arguments: str) -> None:
    subprocess.run(["openssl", *arguments.split()], cwd=folder, check=True, capture_output=True)
