"""Which labels and annotations of a run everything inherits that is created for it. Pure.

Labels are chosen, because queueing systems act on them. Annotations are passed on unless they are excluded, as KServe does with
those of an InferenceService.
"""

from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Final

from inferrun import wellknown
from inferrun.resources import InferenceRun

MAX_BYTES: Final = 2048
"""Of all annotations that are passed on, keys included: they are part of the snapshot."""

_OWN: Final = (f"{wellknown.DOMAIN}/*", "krateo.io/*", "*.krateo.io/*")


def propagated_labels(run: InferenceRun, *, allowed: Collection[str]) -> dict[str, str]:
    """The labels with these keys: some, such as a priority, are not the user's to choose."""
    return {key: value for key, value in run.metadata.labels.items() if key in allowed}


def propagated_annotations(run: InferenceRun, *, excluded: Collection[str]) -> dict[str, str]:
    """The annotations whose key matches none of these patterns, nor is ours; as many as fit, in the order of their keys."""
    found: dict[str, str] = {}
    patterns = [one.replace("[", "[[]").replace("?", "[?]") for one in (*_OWN, *excluded)]  # only `*` is special
    size = 0
    for key, value in sorted(run.metadata.annotations.items()):
        if any(fnmatchcase(key, pattern) for pattern in patterns):
            continue
        size += len(key.encode()) + len(value.encode())
        if size > MAX_BYTES:
            break
        found[key] = value
    return found
