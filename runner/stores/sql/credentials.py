"""The Secret of a database."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from inferrun.plugins.storage import MountedSecret

_SSL_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the mounted Secret contains."""

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
    ssl_mode: str
    authority: Path | None
    """The file with the certificate of the server's authority."""


def read_credentials(secret: MountedSecret) -> Credentials:
    """Read the mounted Secret. Raises ValueError with its name and the key."""

    def value(*keys: str, default: str = "") -> str:
        if found := secret.value(*keys) or default:
            return found
        raise ValueError(f"Secret {secret.name!r} has no key {keys[0]}")

    authority = secret.folder / "ca.crt"
    has_authority = authority.exists()
    mode = value("sslmode", default="verify-full" if has_authority else "prefer")
    if mode not in _SSL_MODES:
        raise ValueError(f"Secret {secret.name!r} has an invalid sslmode; allowed: {', '.join(_SSL_MODES)}")
    port = value("port", default="5432")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"Secret {secret.name!r} has an invalid port")
    host = value("host")
    if host.startswith(("/", "@")) or "," in host or "=" in host:
        raise ValueError(f"Secret {secret.name!r} must have the name or address of one server in key host")
    database = value("dbname", "database")
    if "://" in database or "=" in database:
        raise ValueError(f"Secret {secret.name!r} must have the name of a database in key dbname, not its address")
    return Credentials(
        host=host,
        port=int(port),
        database=database,
        user=value("username", "user"),
        # An empty one is for a server that asks for none.
        password="" if (secret.folder / "password").exists() and not secret.value("password") else value("password"),
        ssl_mode=mode,
        authority=authority if has_authority else None,
    )
