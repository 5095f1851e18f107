"""The shim's watch of runs: the only one, from which everything in the process reads and hears of changes."""

from functools import partial

from control.informer import Key, Listener
from control.namespaced_informers import NamespacedInformers
from inferrun.kube.client import KubeClient
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import RUNS, Object
from inferrun.run_ref import RunRef
from operator_shim.run_terms import has_ended, terms_of
from operator_shim.shared_parts import SharedParts
from operator_shim.trimming import trim_run


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

    def unfinished(self, ref: RunRef) -> Object | None:
        """The run; None if it has ended, is gone, is another one of that name, or is a schedule."""
        run = self.get(ref.namespace, ref.name)
        is_it = run is not None and run["metadata"]["uid"] == ref.uid and not has_ended(run)
        return run if run is not None and is_it and run["spec"].get("schedule") is None else None

    def _tell(self, key: Key, before: Object | None, after: Object | None) -> None:
        for listener in self._listeners:
            listener(key, before, after)
