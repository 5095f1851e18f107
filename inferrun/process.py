"""What every process of ours does alike: logs as JSON lines, health endpoints, an orderly stop on SIGTERM."""

import asyncio
import json
import logging
import signal
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime

from aiohttp import web

HEALTH_PORT = 8080

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and the record's own fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line; a traceback is a field of it."""
        fields = {key: value for key, value in vars(record).items() if key not in _STANDARD}
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **fields,
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = "".join(traceback.format_exception(*record.exc_info))[-4000:]
        return json.dumps(line, default=str)


def log_to_stdout(*, level: str = "INFO") -> None:
    """Send all logs to standard output as JSON lines."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)


def stop_event() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set; call it in the running loop."""
    event = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, event.set)
    return event


async def serve_health(*, port: int, is_ready: Callable[[], bool]) -> web.AppRunner:
    """Serve `/livez` (the loop turns) and `/readyz` on all addresses of the Pod; the caller cleans the runner up."""

    async def live(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n") if is_ready() else web.Response(status=503, text="not ready\n")

    app = web.Application()
    app.add_routes([web.get("/livez", live), web.get("/readyz", ready)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, port=port).start()
    return runner
