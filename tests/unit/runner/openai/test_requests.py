"""Requests and responses of OpenAI's API."""

import orjson
import pytest

from inferrun.plugins import NO_USAGE
from inferrun.runner_report import MAX_COUNT, TokenUsage
from runner.openai.format import OPENAI
from runner.openai.requests import InvalidRequest, error_body, parse_request, parse_response, result_text

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


def test_a_response_that_is_nested_too_deeply_is_described() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_response(b'{"a":\n' + DEEP + b"}")


@pytest.mark.parametrize("separator", [b"\n", b"\r", b"\r\n", b" "])
def test_a_response_is_one_line_that_a_retry_reads_again(separator: bytes) -> None:
    body, _ = parse_response(b'{"id":"x",' + separator + b'"choices":[]}')
    response = result_text(200, "r", body)
    line = b'{"id":"batch_req_%012d","custom_id":"a","response":%b,"error":null}\n' % (0, response)
    assert OPENAI.read_results(line * 1) == {0: response}
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
