"""What leaves the Pod without API rights: the runner's result (termination message) and its progress (log lines).

Both are untrusted input on the control side: everything is bounded, and what does not parse is shown as text or left out.
"""

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from inferrun.reasons import Reason

MESSAGE_LIMIT = 3 * 1024
"""Bytes of a termination message at most; the kubelet cuts at 4,096."""

MAX_COUNT = 2**63 - 1
"""The largest number that the API server stores."""

Delivery = Literal["ExactlyOnce", "AtLeastOnce", "Unknown"]


class RecordCounts(BaseModel):
    """Counts of records, in OpenAI Batch's words; `total` is null while it is not known."""

    model_config = ConfigDict(frozen=True)

    total: int | None = Field(default=None, ge=0, le=MAX_COUNT)
    completed: int = Field(default=0, ge=0, le=MAX_COUNT)
    failed: int = Field(default=0, ge=0, le=MAX_COUNT)


class Output(BaseModel):
    """Where the predictions are, and the commit that makes them the run's."""

    model_config = ConfigDict(frozen=True)

    location: str = Field(default="", max_length=1024)
    manifest: str = Field(default="", max_length=1024)
    sha256: str = Field(default="", max_length=64)


class RunnerResult(BaseModel):
    """How a runner's process ended, as it says itself."""

    model_config = ConfigDict(frozen=True)

    inferrun: Literal["v1"] = "v1"
    reason: Reason
    message: str = Field(default="", max_length=2048)
    records: RecordCounts = RecordCounts()
    delivery: Delivery = "Unknown"
    output: Output = Output()
    retryable: bool = True


class Progress(BaseModel):
    """One progress line of a runner's log."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    event: Literal["progress"] = "progress"
    records: RecordCounts


def dump_result(result: RunnerResult) -> str:
    """The termination message: JSON of at most MESSAGE_LIMIT bytes; a long message is cut to fit."""
    message = result.message
    while True:
        text = result.model_copy(update={"message": message}).model_dump_json()
        excess = len(text.encode()) - MESSAGE_LIMIT
        if excess <= 0 or not message:
            return text
        message = message[: max(0, len(message) - max(excess // 4, 16))].rstrip()


def parse_result(message: str) -> RunnerResult | None:
    """The runner's result in a termination message, or None where the message is something else."""
    try:
        return RunnerResult.model_validate_json(message)
    except ValidationError:
        return None


def parse_progress(log: str) -> Progress | None:
    """The latest progress in a piece of log, or None; lines that are something else are passed over."""
    for line in reversed(log.splitlines()):
        if '"progress"' not in line:
            continue
        try:
            return Progress.model_validate(json.loads(line))
        except (ValueError, RecursionError):
            continue
    return None


def one_line(text: str, *, limit: int = 512) -> str:
    """Foreign text as it may be shown in a status: one line, printable, at most `limit` characters."""
    flat = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"
