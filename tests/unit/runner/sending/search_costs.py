"""`python -m tests.unit.runner.sending.search_costs`: requests and simulated seconds of runs in
which some records fail.

One server answers each request by itself. The other one executes all requests together that arrive
within 50 ms, up to a limit, and answers each of them with the error of one, as MLServer, Triton,
Ray Serve, LitServe and BentoML do.
"""

import asyncio
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Final

from inferrun.plugins import (
    Batch,
    Fault,
    FaultKind,
    InferenceError,
    ModelAbilities,
    RecordError,
    Results,
)
from tests.unit.runner.batches import results
from tests.unit.runner.simulated_time import predict

COUNT: Final = 400
_JOINED_SECONDS: Final = 0.05


class Separate:
    """A server that answers each request by itself."""

    max_records: ClassVar[int | None] = None
    abilities = ModelAbilities()

    def __init__(self, bad: Collection[int], *, kind: FaultKind, seconds: float = 0.05) -> None:
        self.bad = frozenset(bad)
        self.kind = kind
        self.seconds = seconds
        self.requests = 0
        self.ended = 0.0

    async def prepare(self) -> None:
        return

    async def predict(self, batch: Batch) -> Results:
        self.requests += 1
        indexes = range(batch.first, batch.first + len(batch))
        if await self.execute(indexes):
            raise Fault(InferenceError("a value is negative"), kind=self.kind)
        self.ended = asyncio.get_running_loop().time()
        return results(indexes)

    async def execute(self, indexes: range) -> bool:
        """Return whether the request fails."""
        await asyncio.sleep(self.seconds * (1 + indexes.start % 7 / 10))
        return not self.bad.isdisjoint(indexes)


class Joining(Separate):
    """A server that executes requests together, at most so many."""

    most = 16

    def __init__(self, bad: Collection[int], *, kind: FaultKind, seconds: float = 0.05) -> None:
        super().__init__(bad, kind=kind, seconds=seconds)
        self._waiting: list[tuple[range, asyncio.Future[bool]]] = []
        self._execution: asyncio.Task[None] | None = None

    async def execute(self, indexes: range) -> bool:
        response = asyncio.get_running_loop().create_future()
        self._waiting.append((indexes, response))
        if self._execution is None or self._execution.done():
            self._execution = asyncio.create_task(self._execute())
        is_bad: bool = await response
        return is_bad

    async def _execute(self) -> None:
        while self._waiting:
            if len(self._waiting) < self.most:
                await asyncio.sleep(_JOINED_SECONDS)
            joined, self._waiting = self._waiting[: self.most], self._waiting[self.most :]
            await asyncio.sleep(self.seconds)
            is_bad = any(not self.bad.isdisjoint(indexes) for indexes, _ in joined)
            for _, response in joined:
                response.set_result(is_bad)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a run took."""

    requests: int
    seconds: float
    failed: frozenset[int] | None
    """None if the attempt ended."""


def cost_of(model: Separate, *, batch_rows: int, concurrency: int = 8) -> Cost:
    """Predict the records."""
    found: dict[int, object] = {}
    limits = {
        "batch_rows": batch_rows,
        "concurrency": concurrency,
        "request_seconds": 0.0,
        "retry_seconds": 60.0,
    }
    failed: frozenset[int] | None = None
    with suppress(ExceptionGroup):
        predict(model, COUNT, found, **limits)
        assert len(found) == COUNT
        failed = frozenset(index for index, one in found.items() if isinstance(one, RecordError))
    return Cost(requests=model.requests, seconds=model.ended, failed=failed)


SPREADS: Final = {
    "3 bad": frozenset([100, 201, 333]),
    "5 %": frozenset(range(7, COUNT, 20)),
    "50 %": frozenset(range(1, COUNT, 2)),
}


def costs() -> Iterator[tuple[str, Cost, int]]:
    """Run all of them."""
    for server in (Separate, Joining):
        for kind in (FaultKind.REJECTED, FaultKind.SERVER_ERROR):
            for batch_rows in (1, 16, 100):
                for spread, bad in SPREADS.items():
                    name = f"{server.__name__:8} {kind:12} {batch_rows:4} {spread:6}"
                    yield name, cost_of(server(bad, kind=kind), batch_rows=batch_rows), len(bad)


def main() -> None:
    """Print the table."""
    for name, cost, bad in costs():
        wrong = (
            "the attempt ends"
            if cost.failed is None
            else f"{len(cost.failed) - bad:4} failed because of others"
        )
        sys.stdout.write(f"{name} {cost.requests:6} requests {cost.seconds:8.2f} s {wrong}\n")


if __name__ == "__main__":
    main()
