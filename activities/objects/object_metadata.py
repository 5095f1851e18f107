"""Reads the metadata that all Kubernetes objects share. Pure."""

import sys

from inferrun.kube.objects import Object


def name_of(item: Object) -> str:
    """The object's name."""
    return str(item["metadata"]["name"])


def uid_of(item: Object) -> str:
    """The object's UID."""
    return str(item["metadata"]["uid"])


def controller_of(item: Object) -> str | None:
    """UID of the object's controller, None without one. The garbage collector follows this reference; labels can be forged.

    Interned, because caches hold the UID of a Job once for the Job and once for each of its Pods.
    """
    for owner in item["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return sys.intern(str(owner.get("uid", "")))
    return None
