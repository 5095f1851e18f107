"""Signatures on objects in users' namespaces, where users may create objects with any name, owner
and label. Pure.

A signature says which object of which run a worker created, and which texts a ConfigMap has. It
says nothing about the content of a Job, which admission webhooks may change: a Job with our
signature may be replaced by us, but it is never executed.
"""

import json

from control.trust.identity import SigningKey, signer_of
from inferrun import wellknown
from inferrun.kube.objects import Object, annotations_of, name_of
from inferrun.launches.run_texts import hash_of, texts_of
from inferrun.run_ref import RunRef


def signed(body: Object, *, run: RunRef, key: SigningKey) -> Object:
    """An object that is about to be created for the run, with our signature."""
    signature = {wellknown.ANNOTATION_SIGNATURE: key.sign(_statement(body, run=run))}
    metadata = body["metadata"]
    return {
        **body,
        "metadata": {
            **metadata,
            "annotations": {**(metadata.get("annotations") or {}), **signature},
        },
    }


def signer_of_object(stored: Object, *, run: RunRef) -> str:
    """The public key with which the object was signed for this run; empty if it has no valid
    signature."""
    annotations = annotations_of(stored)
    return signer_of(
        annotations.get(wellknown.ANNOTATION_SIGNATURE, ""), _statement(stored, run=run)
    )


def _statement(body: Object, *, run: RunRef) -> bytes:
    texts = hash_of(texts_of(body.get("data")))
    return json.dumps(
        [body["kind"], run.namespace, name_of(body), run.name, run.uid, texts]
    ).encode()
