"""Logging as JSON lines: a static message and structured fields per record. Uses only the standard
library."""

import json
import logging
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TextIO

ERROR_LIMIT = 4000
"""Maximum length of a traceback; its end is kept."""

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """One JSON object per line: time, level, logger, message, and the fields passed as `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line; a traceback becomes a field."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": "log",
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _STANDARD}
        if record.exc_info and record.exc_info[0] is not None:
            line["traceback"] = "".join(_frames(record.exc_info[1]))[-ERROR_LIMIT:]
        return json.dumps(line, default=str)


def _frames(error: BaseException | None) -> list[str]:
    """The types and code locations of an exception and its causes, first cause first.

    Without their texts, which libraries compose from what they process: records, objects, headers.
    """
    if error is None:
        return []
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    frames = [
        *traceback.format_tb(error.__traceback__),
        f"{type(error).__module__}.{type(error).__qualname__}\n",
    ]
    members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    return [*_frames(cause), *frames, *(line for member in members for line in _frames(member))]


def log_as_json(stream: TextIO, *filters: Callable[[logging.LogRecord], bool]) -> None:
    """Write the log of the process to a stream as JSON lines, after the filters."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    for one in filters:
        handler.addFilter(one)
    logging.basicConfig(level="INFO", handlers=[handler], force=True)
