"""The watch of runs as a test fills it, and a loop that notes what it is told."""

from collections.abc import Hashable

from control.informer import Key
from inferrun.kube.objects import Object
from inferrun.run_ref import RunRef
from operator_shim.run_loop import RunLoop
from operator_shim.run_plan import News
from operator_shim.run_terms import terms_of
from operator_shim.run_watch import RunWatch


class ShownRuns(RunWatch):
    """These runs, and those that a test shows later; all have been listed."""

    def __init__(self, *runs: Object) -> None:
        self._listeners = []
        self.runs: dict[Key, Object] = {
            (run["metadata"]["namespace"], run["metadata"]["name"]): run for run in runs
        }
        self.listed = True

    def show(self, key: Key, run: Object | None) -> None:
        """Tell of a change, or of the end."""
        before = self.runs.pop(key, None)
        if (
            before is not None
            and run is not None
            and before["metadata"]["uid"] != run["metadata"]["uid"]
        ):
            self._tell(key, before, None)
            before = None
        if run is not None:
            self.runs[key] = run
        self._tell(key, before, run)

    def get(self, namespace: str, name: str) -> Object | None:
        return self.runs.get((namespace, name))

    def find(self, term: Hashable) -> list[tuple[Key, Object]]:
        return [(key, run) for key, run in self.runs.items() if term in set(terms_of(run))]

    def has_listed(self, namespace: str) -> bool:
        return self.listed


class NotedLoop(RunLoop):
    """Does nothing but note the news."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, News]] = []

    def wake(self, run: RunRef, news: News = News.CHANGED, *, background: bool = False) -> None:
        self.heard.append((run.uid, news))
