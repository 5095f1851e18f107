"""The sender in simulated time: the clock of the event loop advances whenever every task waits, so
hours pass within a moment."""

import asyncio
import selectors

from inferrun.plugins import Batch, Limits, ModelProtocol
from inferrun_runner.sending.error_budget import ErrorBudget
from inferrun_runner.sending.reorder_window import ReorderWindow
from inferrun_runner.sending.requests import Requests
from inferrun_runner.sending.sender import Sender
from tests.unit.runner.batches import batch, decoded

_NEVER_FULL = 1 << 40


class _Selector(selectors.DefaultSelector):
    """Returns at once, and counts the time for which it would have waited."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "every task waits, and nothing will happen"
        self.passed += timeout
        return super().select(0)


class _SimulatedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._simulated = _Selector()
        super().__init__(self._simulated)

    def time(self) -> float:
        return self._simulated.passed


def predict(
    model: ModelProtocol, count: int, found: dict[int, object], **limits: float
) -> Requests:
    """Send so many records, each of which is its index, until each has a prediction or an error in
    `found`. Returns what counts the requests.
    """
    with asyncio.Runner(loop_factory=_SimulatedLoop) as runner:
        return runner.run(_send_all(model, count, found, Limits.model_validate(limits)))


async def _send_all(
    model: ModelProtocol, count: int, found: dict[int, object], limits: Limits
) -> Requests:
    window = ReorderWindow(limit=_NEVER_FULL, in_flight=lambda: _NEVER_FULL)
    sender = Sender(model, window, limits=limits, budget=ErrorBudget(total=0))

    async def send(one: Batch) -> None:
        found.update(enumerate(decoded(await sender.send(one)), start=one.first))

    size = limits.batch_rows
    batches = [
        batch(range(first, min(first + size, count)), first=first)
        for first in range(0, count, size)
    ]
    for one in batches:
        await window.enter(one)
    async with asyncio.timeout(24 * 3600), asyncio.TaskGroup() as group:
        for one in batches:
            group.create_task(send(one))
    return sender.requests
