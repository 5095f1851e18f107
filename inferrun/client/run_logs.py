"""The logs of a run: of all its Pods, across attempts and shards.

A Pod's log is followed until its container has ended. The stream may break before that, because
proxies and kubelets close idle connections: it is continued with the first line that is newer than
the last one.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from inferrun import wellknown
from inferrun.client.kubernetes_runs import KubernetesRuns
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Invalid, KubeError, NotFound
from inferrun.kube.objects import PODS, Object, status_of
from inferrun.resources import InferenceRun

CONTAINER: Final = "inference"
INDEX_LABEL: Final = "batch.kubernetes.io/job-completion-index"

MAX_LINE_BYTES: Final = 64 * 1024
"""The rest of a longer line is left out."""

WAITING_LINES: Final = 1000
AGAIN_SECONDS: Final = 1.0


@dataclass(frozen=True)
class LogLine:
    """A line that a Pod of a run has written."""

    pod: str
    time: str
    """When the node read it, in RFC 3339."""

    text: str
    """The line as it is: it may contain control characters."""

    attempt: int = 0
    shard: int | None = None
    """Index of the Pod, if the run is divided among several."""


async def read_logs(
    api: KubeClient, run: InferenceRun, *, tail: int | None
) -> AsyncGenerator[LogLine, None]:
    """The lines that the Pods have written so far, one Pod after the other, oldest first; of each
    the last `tail`."""
    for pod in sorted(
        await _started_pods(api, run), key=lambda pod: str(pod["metadata"]["creationTimestamp"])
    ):
        async for line in _lines(api, pod, tail=tail, must_follow=False):
            yield line


async def follow_logs(
    api: KubeClient, run: InferenceRun, *, tail: int | None
) -> AsyncGenerator[LogLine, None]:
    """The lines of all Pods as they are written, until the run has ended; it waits for Pods that do
    not exist yet."""
    lines: asyncio.Queue[LogLine] = asyncio.Queue(WAITING_LINES)
    reading = asyncio.create_task(_read_all(api, run, lines, tail=tail))
    try:
        while True:
            getting = asyncio.create_task(lines.get())
            await asyncio.wait({getting, reading}, return_when=asyncio.FIRST_COMPLETED)
            if not getting.done():
                getting.cancel()
                break
            yield getting.result()
        await reading
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from several
    finally:
        reading.cancel()
        await asyncio.wait({reading})


async def _read_all(
    api: KubeClient, run: InferenceRun, lines: "asyncio.Queue[LogLine]", *, tail: int | None
) -> None:
    """Put the lines of every Pod into the queue, each Pod in a task of its own."""
    known: set[str] = set()

    async def read(pod: Object) -> None:
        async for line in _lines(api, pod, tail=tail, must_follow=True):
            await lines.put(line)

    async def wait_for_end() -> None:
        async for _ in KubernetesRuns(api).follow(run.metadata.namespace, run.metadata.name):
            pass

    async with asyncio.TaskGroup() as tasks:
        ending = tasks.create_task(wait_for_end())
        while True:
            has_ended = ending.done()
            with _patience(has_ended=has_ended):
                for pod in await _started_pods(api, run):
                    if (uid := str(pod["metadata"]["uid"])) not in known:
                        known.add(uid)
                        tasks.create_task(read(pod))
            if has_ended:
                return
            await asyncio.wait({ending}, timeout=AGAIN_SECONDS)


@contextmanager
def _patience(*, has_ended: bool) -> Iterator[None]:
    """Whether a server that does not respond ends everything decides `wait_for_end`, until the run
    has ended."""
    try:
        yield
    except KubeError as error:
        if has_ended or not error.retryable:
            raise


async def _started_pods(api: KubeClient, run: InferenceRun) -> list[Object]:
    """The Pods of the run whose container has started."""
    selector = f"{wellknown.LABEL_RUN_UID}={run.metadata.uid}"
    pods = api.items(PODS, run.metadata.namespace, page_size=100, labelSelector=selector)
    return [pod async for pod in pods if not {"running", "terminated"}.isdisjoint(_state(pod))]


def _state(pod: Object) -> Object:
    statuses = status_of(pod).get("containerStatuses") or []
    state: Object = next(
        (one.get("state") or {} for one in statuses if one.get("name") == CONTAINER), {}
    )
    return state


async def _lines(
    api: KubeClient, pod: Object, *, tail: int | None, must_follow: bool
) -> AsyncGenerator[LogLine, None]:
    metadata = pod["metadata"]
    namespace, name, labels = metadata["namespace"], metadata["name"], metadata.get("labels") or {}
    attempt, index = str(labels.get(wellknown.LABEL_ATTEMPT, "")), str(labels.get(INDEX_LABEL, ""))
    params = {"container": CONTAINER, "timestamps": "true"}
    params |= {"follow": "true"} if must_follow else {}
    params |= {"tailLines": str(tail)} if tail is not None else {}
    last = ""
    while True:
        resumed_after = last
        # the Pod or its container may be gone
        with suppress(NotFound, Invalid), _patience(has_ended=not must_follow):
            async for line in _split(api.log_pieces(namespace, name, **params)):
                time, _, text = line.partition(" ")
                if _sortable(time) > _sortable(resumed_after):
                    last = time
                    number = int(attempt) if attempt.isdecimal() else 0
                    yield LogLine(
                        name, time, text, number, int(index) if index.isdecimal() else None
                    )
        if not must_follow:
            return
        with _patience(has_ended=False):
            current = await api.find(PODS, namespace, name)
            if (
                current is None
                or current["metadata"]["uid"] != metadata["uid"]
                or "running" not in _state(current)
            ):
                return
        params.pop("tailLines", None)
        if last:
            params["sinceTime"] = f"{last[:19]}Z"
        await asyncio.sleep(AGAIN_SECONDS)


def _sortable(time: str) -> str:
    """A time of the kubelet, which has as many digits after the point as it needs, and is in
    UTC."""
    seconds, _, fraction = time.removesuffix("Z").partition(".")
    return f"{seconds}.{fraction:0<9}"


async def _split(pieces: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """The lines in pieces of a log."""
    rest = b""
    async for piece in pieces:
        *whole, rest = (rest + piece).split(b"\n")
        rest = rest[:MAX_LINE_BYTES]
        for line in whole:
            yield line[:MAX_LINE_BYTES].decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")
