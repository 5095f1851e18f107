"""The process of a deployed program: settings from the environment, logging, health and metrics
endpoints, shutdown on SIGTERM."""

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from dataclasses import dataclass
from typing import NoReturn, Protocol, TypeVar

from aiohttp import web
from prometheus_client.aiohttp import make_aiohttp_handler

from control.log_subjects import add_subject
from control.metrics import SURVIVED, Metrics
from control.settings import ControlSettings
from control.survival import count_survived
from inferrun.kube.errors import KubeError, Unreachable
from inferrun.logs import log_as_json
from inferrun.text import one_line

logger = logging.getLogger(__name__)


class Program(Protocol):
    """A program that is connected to its servers."""

    @property
    def is_ready(self) -> bool:
        """Whether the program is ready."""

    async def run_until(self, stopped: asyncio.Event) -> None:
        """Run until `stopped` is set."""


class ProgramPart(Protocol):
    """A part of a program that runs beside the others."""

    async def run(self) -> None:
        """Run until cancelled."""


RECURSION_LIMIT = 30_000
"""Python's recursion limit. The API server stores free-form objects nested 10,000 levels deep; one
of them must not make a whole list unreadable."""

RETRY_SECONDS = 3.0
"""The seconds between two attempts to connect to the servers."""

P = TypeVar("P", bound=Program)

Start = Callable[[ControlSettings, Metrics], AbstractAsyncContextManager[P]]


def run_program(
    start: Start[P],
    *,
    run: Callable[[Coroutine[None, None, None]], None],
) -> int:
    """Run a program until SIGTERM, in the event loop of `run`. Exit codes: 0 after SIGTERM, 2 for
    an invalid setting, 1 for any other error.
    """
    try:
        settings = ControlSettings.read(os.environ)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.setrecursionlimit(RECURSION_LIMIT)
    log_as_json(sys.stdout, add_subject)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    try:
        run(_serve(settings, start))
    except (KubeError, RuntimeError, OSError, ExceptionGroup) as error:
        logger.exception("the program failed", extra={"error": str(error)[:1000]})
        return 1
    return 0


def leave(code: int) -> NoReturn:
    """Exit without finalizing the interpreter, during which Temporal's native threads may crash the
    process (temporalio/sdk-python#300) and change its exit code.
    """
    logging.shutdown()
    sys.stdout.flush()
    os._exit(code)


async def _serve(settings: ControlSettings, start: Start[P]) -> None:
    stopped, probes = asyncio.Event(), Probes()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)

    async def live(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(_request: web.Request) -> web.Response:
        is_ready, text = probes.readiness()
        return web.Response(status=200 if is_ready else 503, text=text)

    metrics = Metrics(temporal_port=settings.temporal_metrics_port)
    count_survived(lambda doing: metrics.record(SURVIVED, 1, doing))
    health = web.Application()
    health.add_routes([web.get("/livez", live), web.get("/readyz", ready)])
    health.add_routes([web.get("/metrics", make_aiohttp_handler(metrics.registry))])
    server = web.AppRunner(health)
    await server.setup()
    try:
        await web.TCPSite(server, port=settings.health_port).start()
        async with AsyncExitStack() as stack:
            program = await until_started(
                lambda: stack.enter_async_context(start(settings, metrics)), stopped, probes
            )
            if program is None:
                return
            probes.program = program
            # what was loaded so far lives as long as the process, and takes 70 ms to traverse
            gc.freeze()
            await program.run_until(stopped)
    finally:
        await server.cleanup()


async def until_started(
    start: Callable[[], Awaitable[P]],
    stopped: asyncio.Event,
    probes: "Probes",
    *,
    retry_seconds: float = RETRY_SECONDS,
) -> P | None:
    """Start a program as soon as its servers can be reached; None if it is stopped before.

    If it exited instead, Kubernetes would back off between its restarts, for up to five minutes.
    """
    while not stopped.is_set():
        try:
            return await start()
        except (ConnectionError, Unreachable) as error:
            probes.waits_for = one_line(str(error), limit=512)
            logger.warning(
                "cannot start yet", extra={"error": probes.waits_for, "again_in": retry_seconds}
            )
        with suppress(TimeoutError):
            async with asyncio.timeout(retry_seconds):
                await stopped.wait()
    return None


async def work_until(stopped: asyncio.Event, parts: Iterable[ProgramPart]) -> None:
    """Run the parts until `stopped` is set or one of them ends; its error is raised."""
    background = [asyncio.create_task(part.run()) for part in parts]
    ending = asyncio.create_task(stopped.wait())
    try:
        done, _ = await asyncio.wait([*background, ending], return_when=asyncio.FIRST_COMPLETED)
        for task in done - {ending}:
            task.result()
    finally:
        for task in (*background, ending):
            task.cancel()
        await asyncio.gather(*background, ending, return_exceptions=True)


@dataclass
class Probes:
    """What the health endpoints report."""

    program: Program | None = None
    """The program once it is connected."""

    waits_for: str = ""
    """Why it is not connected yet."""

    def readiness(self) -> tuple[bool, str]:
        """Whether the program is ready, and the text of the response, which says why it is not."""
        if self.program is None:
            return False, f"not ready\n{self.waits_for}"
        is_ready = self.program.is_ready
        return is_ready, "ok\n" if is_ready else "not ready\n"
