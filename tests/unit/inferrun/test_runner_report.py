"""Results and progress reported by a Pod: bounded when written, untrusted when parsed."""

import json

import pytest

from inferrun.reasons import Reason
from inferrun.runner_report import (
    SIZES,
    Output,
    ProgressLine,
    RecordCounts,
    RunnerResult,
    TokenUsage,
    dump_result,
    last_messages,
    latest_line,
    parse_report,
)
from inferrun.text import one_line

RESULT = RunnerResult(
    reason=Reason.SUCCEEDED,
    message="150 of 150 records predicted",
    records=RecordCounts(total=150, completed=150),
    delivery="ExactlyOnce",
    output=Output(location="data/out", manifest="data/out/manifest.json", sha256="ab" * 32),
)


def test_a_result_round_trips() -> None:
    assert parse_report(RunnerResult, dump_result(RESULT)) == RESULT


def test_tokens_are_reported_under_the_names_that_the_status_has() -> None:
    used = RESULT.model_copy(
        update={"usage": TokenUsage(prompt_tokens=3, completion_tokens=2, total_tokens=5)}
    )
    assert json.loads(dump_result(used))["usage"] == {
        "promptTokens": 3,
        "completionTokens": 2,
        "totalTokens": 5,
    }
    assert parse_report(RunnerResult, dump_result(used)) == used


@pytest.mark.parametrize("char", ["a", "ä", "漢", "🦀", '"', "\\", "\n", "\x00", "\u2028"])
def test_a_result_fits_in_3_kib_whatever_its_characters(char: str) -> None:
    long = RESULT.model_copy(
        update={
            "message": char * 2048,
            "output": Output(location="l" * 1024, manifest="m" * 300, sha256="f" * 64),
        }
    )
    text = dump_result(long)
    assert len(text.encode()) <= SIZES.whole
    read = parse_report(RunnerResult, text)
    assert read is not None
    assert read.output == long.output
    assert long.message.startswith(read.message)


@pytest.mark.parametrize(
    "hostile",
    [
        "",
        "null",
        "[]",
        "150",
        "Traceback (most recent call last):",
        "{",
        "{}",
        '{"inferrun": "v1"}',
        '{"inferrun": "v2", "reason": "Succeeded"}',
        '{"inferrun": "v1", "reason": "Hacked"}',
        '{"inferrun": "v1", "reason": "Succeeded", "records": {"completed": -1}}',
        '{"inferrun": "v1", "reason": "Succeeded", "records": {"completed": "many"}}',
        '{"inferrun": "v1", "reason": "Succeeded", "records": {"completed": 1e400}}',
        '{"inferrun": "v1", "reason": "Succeeded", "delivery": "Twice"}',
        '{"inferrun": "v1", "reason": "Succeeded", "message": "' + "x" * 3000 + '"}',
        '{"inferrun": "v1", "reason": "Succeeded", "message": {"a": 1}}',
        "[" * 100_000,
        '{"a":' * 10_000,
        "\ud800",
        "\x00\x01\x02",
    ],
)
def test_anything_else_is_not_a_result_and_raises_no_error(hostile: str) -> None:
    assert parse_report(RunnerResult, hostile) is None


def progress(completed: int) -> str:
    return json.dumps(
        {"event": "progress", "records": {"total": 20_000, "completed": completed}, "chunk": 7}
    )


def test_the_latest_progress_in_a_log_is_returned() -> None:
    found = latest_line(
        ProgressLine, "\n".join(["starting", progress(10), progress(4000), "2026 some other line"])
    )
    assert found is not None
    assert found.records == RecordCounts(total=20_000, completed=4000)


@pytest.mark.parametrize(
    "latest",
    [
        '{"event": "progress"',
        '{"event": "progress"}',
        '{"event": "progress", "records": []}',
        '{"event": "progress", "records": {"completed": -5}}',
        '{"event": "done", "say": "progress"}',
        '"progress"',
        '["progress"]',
        '{"event": "progress", "records": ' + "[" * 5000,
        'cut at the front "progress", "records": {"completed": 5}}',
    ],
)
def test_a_line_without_valid_progress_is_ignored(latest: str) -> None:
    found = latest_line(ProgressLine, f"{progress(10)}\n{latest}")
    assert found is not None
    assert found.records.completed == 10


@pytest.mark.parametrize("log", ["", "\n\n", "nothing of ours"])
def test_a_log_without_progress_gives_none(log: str) -> None:
    assert latest_line(ProgressLine, log) is None


def log_line(message: str, **fields: object) -> str:
    return json.dumps(
        {
            "time": "2026-11-21T08:00:00Z",
            "level": "warning",
            "event": "log",
            "message": message,
            **fields,
        }
    )


def test_the_last_messages_of_a_log_are_one_line_without_progress_and_the_report_of_the_end() -> (
    None
):
    log = "\n".join(
        [
            log_line("first"),
            log_line("a request failed", error="503 from the model server"),
            progress(10),
            log_line("a batch was split"),
            "Fatal Python error: Segmentation fault\x1b[31m",
            log_line("run ended", detail="the model server did not predict"),
            "",
        ]
    )
    assert last_messages(log, limit=512) == (
        "a request failed: 503 from the model server; a batch was split; Fatal Python error: Segmentation fault"
    )
    assert len(last_messages(log, limit=20)) == 20


@pytest.mark.parametrize("log", ["", "\n", "{}", '{"event": "progress"}', '{"event": "log"}'])
def test_a_log_without_messages_gives_an_empty_line(log: str) -> None:
    assert last_messages(log, limit=512) == ""


def test_foreign_text_becomes_one_printable_bounded_line() -> None:
    assert one_line("a\n\tb\x1b[31mred\x00  c\u2028d") == "a b red c d"
    cut = one_line("x" * 600)
    assert len(cut) == 512
    assert cut.endswith("…")
    assert one_line("x" * 512) == "x" * 512
