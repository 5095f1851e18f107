"""The installation on whose behalf activities act, and the Ed25519 key (RFC 8032) with which a
process of it signs.

The key exists as long as its process: the private part is not stored anywhere.
"""

import base64
from dataclasses import dataclass, field
from urllib.parse import quote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from inferrun.resources import WorkflowReference


class SigningKey:
    """A new key pair. `signer` is its public part, in a form that is valid as the name of an
    annotation."""

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


@dataclass(frozen=True)
class Installation:
    """Read once when the worker starts."""

    id: str
    """The installation's id, on every object and workflow that it creates."""

    task_queue: str
    temporal_namespace: str
    ui_url: str
    """Base URL of the Temporal UI; empty if it is not known."""

    namespace: str
    """The release's namespace, in which the workers record with which keys they sign."""

    signing_key: SigningKey = field(default_factory=SigningKey, repr=False)
    """The key of this process, which signs what it creates in users' namespaces."""

    def workflow_reference(
        self, *, workflow_id: str | None, run_id: str | None
    ) -> WorkflowReference:
        """The reference to a workflow in a run's status, with a link if the UI's address is known;
        slashes are percent-encoded."""
        url = None
        if self.ui_url and workflow_id:
            namespace = quote(self.temporal_namespace, safe="")
            identity = quote(workflow_id, safe="")
            url = f"{self.ui_url.rstrip('/')}/namespaces/{namespace}/workflows/{identity}"
            url = f"{url}/{quote(run_id, safe='')}/history" if run_id else url
        return WorkflowReference(
            id=workflow_id, run_id=run_id, namespace=self.temporal_namespace, url=url
        )
