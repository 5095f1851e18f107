"""Marks each run that has started with its UID, so that a copy of it without a status is not executed.

Backups leave the status out, and so does `kubectl apply` of an exported manifest; annotations they keep. The API server gives the
copy another UID. A lane of its own, which nothing waits for: if a shim is killed, the next one marks what it lists.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from control.informer import Key
from control.metrics import Metrics
from control.work_queue import WorkQueue
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Conflict, NotFound
from inferrun.kube.objects import RUNS, Object
from inferrun.reasons import Phase

_STARTED: Final = (Phase.RUNNING, Phase.SUCCEEDED, Phase.FAILED)
"""Earlier than that, a copy may be executed: nothing has been predicted. No write of a launch meets this one."""

DELAY: Final = 1.0
"""Seconds until a run is marked that has begun to run: an edit is acknowledged before, and not sent again because of the mark."""


class StartMarks:
    """One lane of the shim; `read` returns a run as last seen by the watch."""

    def __init__(self, api: KubeClient, *, read: Callable[[Key], Object | None], metrics: Metrics) -> None:
        self._api = api
        self._read = read
        self._queue: WorkQueue[Key] = WorkQueue(
            self._mark, workers=1, group=lambda key: key[0], metrics=metrics, name="marks"
        )

    async def run(self) -> None:
        await self._queue.run()

    def observe(self, key: Key, run: Object) -> None:
        """A run is new or has changed."""
        if not lacks_mark(run):
            return
        if run["status"]["phase"] == Phase.RUNNING:
            self._queue.add_within(key, DELAY)
        else:
            self._queue.add(key, background=True)

    async def _mark(self, key: Key) -> None:
        run = self._read(key)
        if run is None or not lacks_mark(run):
            return
        uid = run["metadata"]["uid"]
        body = {"metadata": {"uid": uid, "annotations": {wellknown.ANNOTATION_STARTED_AS: uid}}}
        with suppress(Conflict, NotFound):  # another one has its name
            await self._api.patch(RUNS, *key, body)


def lacks_mark(run: Object) -> bool:
    """Whether a run has started, or has ended, and a copy of it would not show that."""
    metadata = run["metadata"]
    annotations = metadata.get("annotations") or {}
    is_left_alone = annotations.get(wellknown.ANNOTATION_PAUSED) == "true" or metadata.get("deletionTimestamp")
    has_started = run["spec"].get("schedule") is None and (run.get("status") or {}).get("phase") in _STARTED
    return bool(
        has_started and not is_left_alone and annotations.get(wellknown.ANNOTATION_STARTED_AS) != metadata["uid"]
    )
