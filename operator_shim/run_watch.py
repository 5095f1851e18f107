"""The shim's watch of runs: the only one, from which everything in the process reads and hears of changes."""

import json
from functools import partial

from control.informer import Key, Listener
from control.namespaced_informers import NamespacedInformers
from inferrun.kube.client import KubeClient
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import RUNS, Object
from inferrun.run_ref import RunRef
from operator_shim.run_terms import terms_of
from operator_shim.trimming import trim_run

SHARED_LIMIT = 2_000
"""Distinct parts of objects that are remembered for sharing; beyond that, sharing begins anew."""


class SharedParts:
    """Equal parts of cached objects, kept once: thousands of Pods and runs are nearly the same. Nothing may change a cached
    object.
    """

    def __init__(self) -> None:
        self._parts: dict[str, Object] = {}

    def __call__(self, part: Object) -> Object:
        """An equal part that was shared before, or this one."""
        if len(self._parts) >= SHARED_LIMIT:
            self._parts.clear()
        return self._parts.setdefault(json.dumps(part), part)


class RunWatch(NamespacedInformers):
    """The shim runs it as one task, after everything has subscribed."""

    def __init__(self, api: KubeClient, *, namespaces: Namespaces) -> None:
        self._listeners: list[Listener] = []
        super().__init__(
            api,
            RUNS,
            namespaces=namespaces,
            transform=partial(trim_run, share=SharedParts()),
            listener=self._tell,
            terms=terms_of,
        )

    def subscribe(self, listener: Listener) -> None:
        """Call it for every change, with the run before and after."""
        self._listeners.append(listener)

    def seen(self, ref: RunRef) -> Object | None:
        """The run as last seen; None if it is not watched, or another one has its name."""
        run = self.get(ref.namespace, ref.name)
        return run if run is not None and run["metadata"]["uid"] == ref.uid else None

    def _tell(self, key: Key, before: Object | None, after: Object | None) -> None:
        for listener in self._listeners:
            listener(key, before, after)
