"""What a Pod reports without access to the API: the runner's result (termination message) and its
progress (log lines).

Both are untrusted input on the control side: everything is bounded, and what cannot be parsed is
shown as text or ignored. `RecordCounts`, `Output` and `Delivery` are also parts of an
InferenceRun's status; the strings under their fields are shown by `kubectl explain`.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Literal, TypeVar

from pydantic import AfterValidator, Field, ValidationError

from inferrun.camel_case import CamelCase
from inferrun.nesting import load_bounded
from inferrun.reasons import Reason
from inferrun.text import one_line


@dataclass(frozen=True, kw_only=True)
class ReportSizes:
    """Sizes of what a runner reports, so that it fits in the termination message of its
    container."""

    kubelet: int = 4096
    """The bytes of a termination message at which the kubelet truncates it."""

    whole: int = 3 * 1024
    """The bytes of a termination message that a runner writes."""

    message: int = 1500
    """The characters of a message, which fit with every one of them escaped."""

    location: int = 1024
    """The characters of a location."""

    note: int = 256
    """The characters of the note in a runner's progress; a longer one is truncated."""

    def __post_init__(self) -> None:
        if not (
            self.note < self.location < self.message
            and 2 * self.message < self.whole < self.kubelet
        ):
            raise ValueError(
                f"needs note < location < message < whole / 2, whole < kubelet, not {self}"
            )


SIZES = ReportSizes()

MAX_COUNT = 2**63 - 1
"""The largest integer that the API server stores."""

END_MESSAGE = "run ended"
"""The message with which a runner logs its end."""

LAST_MESSAGES = 3
"""Number of log messages that are shown of a failed attempt."""

DIGEST_LIMIT = 64
"""Number of characters of a SHA-256 digest in hexadecimal."""

Delivery = Literal["ExactlyOnce", "AtLeastOnce", "Unknown"]
"""What the store of the predictions guarantees for each record."""


def _check_storable(count: int) -> int:
    """A validator instead of a constraint, because the API server's schema knows 64-bit integers
    already."""
    if count > MAX_COUNT:
        raise ValueError(f"at most {MAX_COUNT}")
    return count


Count = Annotated[int, Field(ge=0), AfterValidator(_check_storable)]


Report = TypeVar("Report", bound="TerminationMessage")
Line = TypeVar("Line", "ProgressLine", "WarmUp")


class RecordCounts(CamelCase):
    """Numbers of records, named as in OpenAI's Batch API. When a run has ended, completed and
    failed add up to total."""

    total: Count | None = None
    """Number of input records; not set until it is known."""

    completed: Count = 0
    """Number of records with a prediction."""

    failed: Count = 0
    """Number of records with an error instead of a prediction."""


class TokenUsage(CamelCase):
    """Tokens that the model server counted, summed over the committed records. Only servers of
    language models count them."""

    prompt_tokens: Count = 0
    """Tokens of the requests."""

    completion_tokens: Count = 0
    """Tokens of the responses."""

    total_tokens: Count = 0
    """Tokens of requests and responses."""

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        """The sum."""
        return total_usage((self, other)) if other.total_tokens else self


def total_usage(parts: Iterable[TokenUsage]) -> TokenUsage:
    """Return the sum. A server can count what it likes, so it ends at the largest number that can
    be stored."""
    prompt = completion = total = 0
    for one in parts:
        prompt += one.prompt_tokens
        completion += one.completion_tokens
        total += one.total_tokens
    return TokenUsage(
        prompt_tokens=min(prompt, MAX_COUNT),
        completion_tokens=min(completion, MAX_COUNT),
        total_tokens=min(total, MAX_COUNT),
    )


class Output(CamelCase):
    """The location of the predictions and of the manifest that commits them."""

    location: str = Field(default="", max_length=4096)
    """Location of the predictions, such as a path on a claim or a URL."""

    manifest: str = Field(default="", max_length=4096)
    """Location of the manifest that commits the predictions."""

    sha256: str = Field(default="", max_length=256)
    """SHA-256 digest of the manifest."""


def _check_fits_in_message(output: Output) -> Output:
    if (
        max(len(output.location), len(output.manifest)) > SIZES.location
        or len(output.sha256) > DIGEST_LIMIT
    ):
        raise ValueError(
            f"locations have at most {SIZES.location} characters, a digest {DIGEST_LIMIT}"
        )
    return output


class TerminationMessage(CamelCase):
    """What the reports of a run's Pod and of a verification have in common."""

    inferrun: Literal["v1"] = "v1"
    message: str = Field(default="", max_length=2048)
    records: RecordCounts = RecordCounts()
    usage: TokenUsage | None = None
    delivery: Delivery = "Unknown"
    output: Annotated[Output, AfterValidator(_check_fits_in_message)] = Output()


class RunnerResult(TerminationMessage):
    """How a runner's process ended, as reported by the runner."""

    reason: Reason
    retryable: bool = True


class OutputState(StrEnum):
    """Whether the output of a run is committed, as found in its store."""

    COMMITTED = "Committed"
    NOT_COMMITTED = "NotCommitted"
    UNKNOWN = "Unknown"


class OutputFinding(TerminationMessage):
    """What the verification of a run's output found; the rest is set only if the output is
    committed."""

    state: OutputState


class Pace(CamelCase):
    """How fast a running attempt is, and how it sends requests."""

    records_per_second: Count = 0
    """Records with a result per second, over the last minute, rounded down."""

    seconds_left: Count | None = None
    """Estimated number of seconds until all records have a result; not set until it can be
    estimated."""

    batch_records: Count = 0
    """Current number of records in a request."""

    concurrency: Count = 0
    """Current number of requests that may be in flight."""

    requests: Count = 0
    """Number of requests of the current Pod to the model server that have ended."""

    failed_requests: Count = 0
    """Number of those that failed. They are sent again if that may help."""

    request_seconds: Count = 0
    """Number of seconds that the requests took together."""

    sent_bytes: Count = 0
    """Size in bytes of the records in the requests; records that are sent again count again."""

    received_bytes: Count = 0
    """Size in bytes of the predictions in the responses."""

    duplicate_records: Count = 0
    """Number of records of the current Pod that were not sent, because they are the same request as
    another one whose answer they got."""


class ProgressLine(CamelCase):
    """A progress line in a runner's log."""

    event: Literal["progress"] = "progress"
    records: RecordCounts
    usage: TokenUsage | None = None
    pace: Pace | None = None

    note: Annotated[str, AfterValidator(lambda note: one_line(note, limit=SIZES.note))] = ""
    """Why requests are not sent as usual, for the run's status; empty if they are."""


def dump_result(result: TerminationMessage) -> str:
    """The termination message: JSON of at most 3 KiB; a long message is truncated."""
    message = result.message
    while True:
        text = result.model_copy(update={"message": message}).model_dump_json(by_alias=True)
        excess = len(text.encode()) - SIZES.whole
        if excess <= 0 or not message:
            return text
        message = message[: max(0, len(message) - max(excess // 4, 16))].rstrip()


def parse_report(kind: type[Report], message: str) -> Report | None:
    """The report of a runner or of a verification in a termination message, or None if the message
    is not one."""
    try:
        return kind.model_validate_json(message)
    except ValidationError:
        return None


class WarmUp(CamelCase):
    """A line in the log of a warm-up: what the latest probe of the model has seen, and after how
    many seconds."""

    event: Literal["warm-up"] = "warm-up"
    seen: str = Field(max_length=1024)
    seconds: int = 0
    limit: int = 0
    """After how many seconds it gives up; 0: not known."""

    def __str__(self) -> str:
        """For the run's status."""
        return (
            f"{self.seen}; the Pod gives up after {self.limit} s (kserve.warmUpSeconds)"
            if self.limit
            else self.seen
        )


def latest_line(kind: type[Line], log: str) -> Line | None:
    """The last line of that kind in a log excerpt, or None; other lines are ignored."""
    for line in reversed(log.splitlines()):
        if f'"{kind.model_fields["event"].default}"' in line:
            with suppress(ValueError):
                return kind.model_validate(load_bounded(line))
    return None


def last_messages(log: str, *, limit: int) -> str:
    """The last messages in a log excerpt of a runner, oldest first, on one line of at most `limit`
    characters.

    Progress is left out, and so is the report of the end, which the result contains.
    """
    messages = [text for line in log.splitlines() if (text := _message_in(line))]
    return one_line("; ".join(messages[-LAST_MESSAGES:]), limit=limit)


def _message_in(line: str) -> str:
    try:
        fields = load_bounded(line)
    except ValueError:
        return line.strip()
    if not isinstance(fields, dict):
        return line.strip()
    if fields.get("event") != "log" or fields.get("message") == END_MESSAGE:
        return ""
    detail = next((fields[key] for key in ("error", "detail") if fields.get(key)), "")
    return f"{fields.get('message', '')}: {detail}" if detail else str(fields.get("message", ""))
