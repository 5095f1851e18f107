"""The Secret of a database, as it is mounted."""

from inferrun.plugins.storage import MountedSecret
from inferrun.stores.sql import LOGIN_KEYS, SqlLogin, login_of


def read_credentials(secret: MountedSecret) -> SqlLogin:
    """Read the mounted Secret. Raises ValueError with its name and the key."""
    authority = secret.folder / "ca.crt"
    whose = f"Secret {secret.name!r}"
    login = login_of(
        secret.values(LOGIN_KEYS), whose=whose, authority=authority if authority.exists() else None
    )
    if login.host.startswith(("/", "@")):  # a socket of the node
        raise ValueError(f"{whose} must have the name or address of one server in key host")
    return login
