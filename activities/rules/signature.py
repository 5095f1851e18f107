"""Signatures of what a worker creates in users' namespaces: with an Ed25519 key (RFC 8032) of its process. Pure.

A signature says which object of which run its signer created, and which texts a ConfigMap had. It says nothing about the content of
a Job, which admission webhooks may change: a Job with our signature may be replaced by us, but it is never executed.
"""

import base64
import json

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from activities.rules.known_start import texts_of
from activities.rules.object_metadata import name_of
from activities.rules.snapshot import hash_of
from inferrun import wellknown
from inferrun.kube.objects import Object
from inferrun.run_ref import RunRef


class SigningKey:
    """A key pair that exists as long as its process. Its private part is not stored anywhere."""

    def __init__(self) -> None:
        self._private = Ed25519PrivateKey.generate()
        public = self._private.public_key().public_bytes_raw()
        self.signer = base64.b32encode(public).decode().rstrip("=").lower()
        """The public key, in a form that is valid as the name of an annotation."""

    def sign(self, body: Object, *, run: RunRef) -> str:
        """The signature of an object that is about to be created for the run."""
        return f"{self.signer}.{base64.b64encode(self._private.sign(_statement(body, run=run))).decode()}"


def signer_of(stored: Object, *, run: RunRef) -> str:
    """The public key with which the object was signed for this run; empty if it has no valid signature. Anybody may have a key."""
    given = (stored["metadata"].get("annotations") or {}).get(wellknown.ANNOTATION_SIGNATURE, "")
    signer, _, signature = given.partition(".")
    try:
        public = Ed25519PublicKey.from_public_bytes(base64.b32decode(signer.upper() + "===="))
        public.verify(base64.b64decode(signature), _statement(stored, run=run))
    except (InvalidSignature, ValueError):
        return ""
    return str(signer)


def _statement(body: Object, *, run: RunRef) -> bytes:
    texts = hash_of(texts_of(body.get("data")))
    return json.dumps([body["kind"], run.namespace, name_of(body), run.name, run.uid, texts]).encode()
