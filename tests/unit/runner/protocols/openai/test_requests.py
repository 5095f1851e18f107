"""Requests and responses of OpenAI's API."""

import io

import orjson
import pytest

from inferrun.formats.openai import OPENAI
from inferrun.plugins import NO_USAGE
from inferrun.runner_report import MAX_COUNT, TokenUsage
from runner.protocols.openai.requests import (
    InvalidRequest,
    error_body,
    parse_request,
    parse_response,
    reason_of,
    result_text,
)

DEEP = b"[" * 300 + b"]" * 300
REQUEST = b'{"custom_id": "a", "method": "POST", "url": "/v1/completions", "body": {"prompt": %b}}'


def test_a_request_that_is_nested_too_deeply_is_invalid() -> None:
    with pytest.raises(InvalidRequest, match="body: a value cannot be written as JSON"):
        parse_request(REQUEST % DEEP, model="m")


@pytest.mark.parametrize("body", [DEEP, b"<html>", b"", b"\xff"])
def test_whatever_a_server_says_about_an_error_is_json_on_one_line(body: bytes) -> None:
    text = error_body(body)
    assert b"\n" not in text
    orjson.loads(text)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            b'{"error":{"message":"The model `m` does not exist","code":"model_not_found"}}',
            "model_not_found: The model `m` does not exist",
        ),
        (b'{"error":{"message":"too long","type":"BadRequestError","code":400}}', "BadRequestError: too long"),
        (b'{"object":"error","message":"too\\nlong","type":"BadRequestError"}', "BadRequestError: too long"),
        (b'{"error":"too long","error_type":"validation"}', "too long"),
        (b'{"detail":"Not Found"}', "Not Found"),
        (b'{"detail":[{"input":"x"}]}', ""),
        (b'{"error":null}', ""),
        (b'["too long"]', ""),
        (b"<html>", ""),
        (b"", ""),
    ],
)
def test_the_reason_of_a_rejection_is_found(body: bytes, reason: str) -> None:
    assert reason_of(body, request=b'{"model":"m","prompt":"a"}') == reason


@pytest.mark.parametrize(
    "prompt", [b'"Alice, 4711"', b'["alice", 4711]', b'[{"content":[{"text":"for ALICE: 4711"}]}]']
)
def test_the_reason_of_a_rejection_repeats_no_word_of_the_record(prompt: bytes) -> None:
    body = b'{"error":{"message":"invalid text \'Alice 4711\' for the model","code":"alice"}}'
    assert reason_of(body, request=b'{"model":"m","prompt":%b}' % prompt) == "…: invalid text '… …' for the model"


@pytest.mark.parametrize("said", ["'My name is Al...fghijkl'", "'for abcdefgh", "ABCDEFGHI..."])
def test_the_reason_of_a_rejection_repeats_no_part_of_a_long_word(said: str) -> None:
    found = reason_of(orjson.dumps({"error": said}), request=b'{"prompt":"for Alice abcdefghijkl"}')
    assert "fgh" not in found.casefold()


def test_a_long_reason_is_truncated() -> None:
    assert len(reason_of(b'{"error":"%b"}' % (b"x" * 10_000), request=b"{}")) <= 300


def test_a_response_that_is_nested_too_deeply_is_described() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_response(b'{"a":\n' + DEEP + b"}")


@pytest.mark.parametrize("separator", [b"\n", b"\r", b"\r\n", b" "])
def test_a_response_is_one_line_that_a_retry_reads_again(separator: bytes) -> None:
    body, _ = parse_response(b'{"id":"x",' + separator + b'"choices":[]}')
    response = result_text(200, "r", body)
    line = b'{"id":"batch_req_%012d","custom_id":"a","response":%b,"error":null}\n' % (0, response)
    assert [row.prediction for row in OPENAI.read_results(io.BytesIO(line))] == [response]
    assert line.splitlines() == [line.removesuffix(b"\n")]


@pytest.mark.parametrize(
    ("usage", "total"),
    [
        (b'{"prompt_tokens":9223372036854775807,"completion_tokens":5}', MAX_COUNT),
        (b'{"total_tokens":18446744073709551615}', MAX_COUNT),
        (b'{"prompt_tokens":123456789012345678901234567890}', 0),
        (b'{"total_tokens":-5,"prompt_tokens":3}', 3),
        (b'{"total_tokens":true,"prompt_tokens":1e30,"completion_tokens":"7"}', 0),
        (b'{"total_tokens":{"a":[]}}', 0),
        (b"[1]", 0),
        (b'"many"', 0),
        (b"null", 0),
    ],
)
def test_a_prediction_is_kept_whatever_the_server_says_about_its_tokens(usage: bytes, total: int) -> None:
    body = b'{"id":"x","usage":%b}' % usage
    text, found = parse_response(body)
    assert (text, found.total_tokens) == (body, total)


def test_the_sum_of_the_largest_numbers_of_tokens_can_be_stored() -> None:
    largest = TokenUsage(prompt_tokens=MAX_COUNT, completion_tokens=MAX_COUNT, total_tokens=MAX_COUNT)
    assert sum([largest, largest], start=NO_USAGE) == largest


@pytest.mark.parametrize("members", [b"", b',"choices":[]', b',"data":null', b',"output":[],"status":"failed"'])
def test_a_response_that_is_only_an_error_is_invalid(members: bytes) -> None:
    with pytest.raises(ValueError, match="an error in spite of its status"):
        parse_response(b'{"error":{"message":"c4nary"}%b}' % members)


@pytest.mark.parametrize("error", [b"null", b"{}", b'{"message":"a part of the output is missing"}'])
def test_a_response_with_a_result_is_kept_whatever_its_error(error: bytes) -> None:
    body = b'{"choices":[{"index":0}],"error":%b}' % error
    assert parse_response(body) == (body, NO_USAGE)


def test_a_byte_order_mark_before_a_response_is_ignored() -> None:
    assert parse_response(b'\xef\xbb\xbf{"choices":[]}') == (b'{"choices":[]}', NO_USAGE)
