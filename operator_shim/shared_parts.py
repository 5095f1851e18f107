"""Equal parts of cached objects are kept once: thousands of Pods and runs are nearly the same."""

import json

from inferrun.kube.objects import Object

SHARED_LIMIT = 2_000
"""Distinct parts of objects that are remembered for sharing; beyond that, sharing begins anew."""


class SharedParts:
    """Equal parts of cached objects, kept once. Nothing may change a cached object."""

    def __init__(self, *, limit: int = SHARED_LIMIT) -> None:
        self._limit = limit
        self._parts: dict[str, Object] = {}

    def __call__(self, part: Object) -> Object:
        """An equal part that was shared before, or this one."""
        if len(self._parts) >= self._limit:
            self._parts.clear()
        return self._parts.setdefault(json.dumps(part), part)
