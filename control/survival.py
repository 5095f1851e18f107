"""Keeps a loop alive: what one object, one request or one round raises is logged and counted, and
the rest is served.

Every loop of shim and worker that serves more than one object, and every one that runs for as long
as its process, passes through `surviving` or through `control.work_queue`, which also tries an
object again. What is to end the process is raised outside of it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar

from temporalio.service import RPCError

from control.log_subjects import fields_of_object, fields_of_run
from inferrun.kube.errors import KubeError
from inferrun.run_ref import RunRef

logger = logging.getLogger(__name__)

_count: ContextVar[Callable[[str], None]] = ContextVar(
    "counts survived errors", default=lambda _doing: None
)


def count_survived(count: Callable[[str], None]) -> None:
    """Call it, from now on in this task and those that it starts, with what was being done when an
    error was survived."""
    _count.set(count)


@contextmanager
def surviving(doing: str, *, about: object = None) -> Iterator[None]:
    """Go on after an error of what is inside. `doing` says what that is, always the same words,
    because they are a label of a metric; `about` is the run, or the key or the name of another
    object, that it is done for. The cancellation of the task passes.
    """
    try:
        yield
    except (Exception, asyncio.CancelledError) as error:
        if is_being_cancelled(error):
            raise
        fields: dict[str, object] = {} if about is None else {"object": str(about)[:200]}
        with suppress(Exception):  # whatever is wrong with the object may be wrong here
            if isinstance(about, RunRef):
                fields = fields_of_run(about)
            elif isinstance(about, dict):
                fields = fields_of_object(about)
        is_expected = isinstance(error, KubeError | RPCError | TimeoutError | OSError)
        fields["error"] = f"{type(error).__name__}: {error}"[:500]
        logger.warning("%s failed", doing, exc_info=None if is_expected else error, extra=fields)
        _count.get()(doing)


def is_being_cancelled(error: BaseException) -> bool:
    """Whether it is the cancellation of the task that runs. What awaits another task that was
    cancelled raises the same: that is an error like any other, and must not end the task silently.
    """
    task = asyncio.current_task() if isinstance(error, asyncio.CancelledError) else None
    return task is not None and task.cancelling() > 0


@contextmanager
def trying_each() -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """Do something for each of several objects although it fails for one of them: with what it
    yields around each. At the end, the first error is raised, so that the whole is tried again.
    """
    errors: list[BaseException] = []

    @contextmanager
    def one() -> Iterator[None]:
        try:
            yield
        except (Exception, asyncio.CancelledError) as error:
            if is_being_cancelled(error):
                raise
            errors.append(error)

    yield one
    if errors:
        raise errors[0]
