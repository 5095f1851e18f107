"""The Ed25519 key (RFC 8032) with which a worker process signs what it creates in users' namespaces.

It exists as long as its process: the private part is not stored anywhere. Does no I/O.
"""

import base64

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


class SigningKey:
    """A new key pair. `signer` is its public part, in a form that is valid as the name of an annotation."""

    def __init__(self) -> None:
        self._private = Ed25519PrivateKey.generate()
        public = self._private.public_key().public_bytes_raw()
        self.signer = base64.b32encode(public).decode().rstrip("=").lower()

    def sign(self, statement: bytes) -> str:
        """A signature, which names its signer."""
        return f"{self.signer}.{base64.b64encode(self._private.sign(statement)).decode()}"


def signer_of(signature: str, statement: bytes) -> str:
    """Who signed the statement; empty if the signature is not valid. Anybody may have a key."""
    signer, _, signed = signature.partition(".")
    try:
        public = Ed25519PublicKey.from_public_bytes(base64.b32decode(signer.upper() + "===="))
        public.verify(base64.b64decode(signed), statement)
    except (InvalidSignature, ValueError):
        return ""
    return signer
