"""Requests and responses of OpenAI's API."""

import io
import json

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inferrun.formats.openai import OPENAI
from inferrun.plugins import NO_USAGE, Chunk, Limits
from inferrun.runner_report import MAX_COUNT, TokenUsage
from inferrun_runner.protocols.openai.requests import (
    NotARequest,
    error_body,
    parse_request,
    parse_response,
    reason_of,
    result_text,
)
from inferrun_runner.stores.file.local_files import MemoryFile

DEEP = b"[" * 300 + b"]" * 300
DEEPER = b"[" * 5000 + b"]" * 5000
LINE = b'{"custom_id":"a","url":"/v1/completions","body":%b}'

NO_VALUES_OF_PYTHON = (
    b"123456789012345678901234567890",
    b"-18446744073709551617",
    b"1e400",
    b"1.00000000000000000001",
    b'"\\ud800"',
    b'"\\u00fc \\/"',
    '"ü\u2028"'.encode(),
    b"[1.0, 1e0, 10E-1 ]",
)
"""JSON that changes, or is refused, if it is decoded and encoded again."""


@pytest.mark.parametrize("value", NO_VALUES_OF_PYTHON)
@pytest.mark.parametrize("model", ["", "other"])
def test_a_body_is_sent_as_it_is_but_for_its_model(value: bytes, model: str) -> None:
    line = LINE % (b'{ "seed" : %b ,"model":"m", "messages":[{"model":"x"}]}' % value)
    expected = b'{ "seed" : %b ,"model":"%b", "messages":[{"model":"x"}]}' % (
        value,
        model.encode() or b"m",
    )
    assert parse_request(line, model=model)[1] == expected


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (b"{}", b'{"model":"\xc3\xbc"}'),
        (b"{ }", b'{"model":"\xc3\xbc" }'),
        (b'{"a":1e400}', b'{"model":"\xc3\xbc","a":1e400}'),
        (b'{"mod\\u0065l" : {"model": 1}}', b'{"mod\\u0065l" : "\xc3\xbc"}'),
    ],
)
def test_a_body_gets_the_configured_model_wherever_it_has_one(body: bytes, sent: bytes) -> None:
    assert parse_request(LINE % body, model="ü")[1] == sent


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    body=st.dictionaries(
        st.text(max_size=6).filter(lambda name: name not in ("model", "stream")), JSON
    ),
    at=st.integers(0, 5),
    ascii_only=st.booleans(),
    indent=st.sampled_from([None, (", ", ": "), ("\r,", "\t:  ")]),
)
def test_every_byte_of_any_body_but_its_model_arrives(
    body: dict[str, object], at: int, ascii_only: object, indent: tuple[str, str] | None
) -> None:
    members = list(body.items())
    members.insert(at, ("model", "m\ud800o"))
    text = json.dumps(dict(members), ensure_ascii=bool(ascii_only), separators=indent)
    encoded = text.replace("\ud800", "\\ud800").encode("utf-8", "surrogatepass")
    try:
        encoded.decode()
    except UnicodeDecodeError:  # the text of a body is UTF-8; a surrogate in it is an escape
        return
    expected = encoded.replace(b'"m\\ud800o"', b'"n"')
    assert parse_request(LINE % encoded, model="n")[1] == expected
    assert parse_request(LINE % encoded, model="")[1] == encoded


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"url":"/v1/completions"', "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b'{"custom_id":"a","url":"/v1/completions","body":{"a":NaN}}', "not valid JSON"),
        (b'{"custom_id":"a","url":"/v1/completions","body":{"a":01}}', "not valid JSON"),
        (b'{"custom_id":"a","url":"/v1/completions","body":{}} x', "not valid JSON"),
        (b'{"custom_id":"a","url":"/v1/completions","body":{"a":"\xff"}}', "not valid JSON"),
        (b'{"custom_id":"a","url":"/v1/completions","body":{"a":"\x01"}}', "not valid JSON"),
        (b'{"custom_id":"a","url":"/v1/completions","body":{},"body":{}}', "body is there twice"),
        (
            b'{"custom_id":"a","url":"/v1/completions","body":{"model":"a","model":"b"}}',
            "body.model is there twice",
        ),
        (
            b'{"custom_id":"a","url":"/v1/completions","body":{"stream":true}}',
            "stream must be false",
        ),
        (b'{"custom_id":"a","url":"/v1/completions","body":[]}', "body must be a JSON object"),
        (b'{"custom_id":1,"url":"/v1/completions","body":{}}', "custom_id must be a string"),
        (
            b'{"custom_id":"\\ud800","url":"/v1/completions","body":{}}',
            "custom_id must be a string",
        ),
        (
            b'{"custom_id":"a","method":"GET","url":"/v1/completions","body":{}}',
            "method must be POST",
        ),
        (b'{"custom_id":"a","url":"/completion","body":{}}', "url must be one of"),
        # Mistral
        (
            b'{"custom_id":"a","body":{"messages":[]}}',
            "url is missing; the line must be a JSON object with",
        ),
        (b'{"custom_id":"a","params":{"messages":[]}}', "url, body are missing"),  # Anthropic
        (b'{"request":{"contents":[]}}', "custom_id, url, body are missing"),  # Vertex AI
        (b'{"recordId":"a","modelInput":{}}', "custom_id, url, body are missing"),  # Bedrock
        (LINE % (b'{"prompt": %b}' % DEEPER), "nested too deeply"),
    ],
)
def test_a_line_that_is_no_request_is_described(line: bytes, why: str) -> None:
    with pytest.raises(NotARequest, match=why):
        parse_request(line, model="m")


@pytest.mark.parametrize("stream", [b"false", b"null"])
def test_a_request_may_say_that_it_streams_nothing(stream: bytes) -> None:
    assert (
        parse_request(LINE % (b'{"stream":%b}' % stream), model="")[1] == b'{"stream":%b}' % stream
    )


def test_the_paths_of_azure_are_understood() -> None:
    line = b'{"custom_id":"a","method":"POST","url":"/chat/completions","body":{"messages":[]}}'
    assert parse_request(line, model="")[0] == "/v1/chat/completions"


@pytest.mark.parametrize(
    "url", ["/v1/rerank", "/v1/score", "/v1/moderations", "/v2/rerank", "/rerank"]
)
def test_requests_of_other_tasks_are_sent(url: str) -> None:
    line = b'{"custom_id":"a","url":"%b","body":{"query":"x"}}' % url.encode()
    assert parse_request(line, model="")[0] == url


@pytest.mark.parametrize("value", NO_VALUES_OF_PYTHON)
def test_the_id_of_a_request_is_found_whatever_its_body_has(value: bytes) -> None:
    line = LINE % (b'{"seed":%b}' % value)
    chunk = Chunk(index=0, unit=0, start=0, end=len(line), first=0, records=1)
    (block,) = OPENAI.read(MemoryFile("batch.jsonl", line), chunk, limits=Limits())
    assert list(block.ids) == ["a"]


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
        (
            b'{"error":{"message":"too long","type":"BadRequestError","code":400}}',
            "BadRequestError: too long",
        ),
        (
            b'{"object":"error","message":"too\\nlong","type":"BadRequestError"}',
            "BadRequestError: too long",
        ),
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
    "prompt",
    [
        *(b'"Alice, 4711"', b'["alice", 4711]', b'[{"content":[{"text":"for ALICE: 4711"}]}]'),
        b'"Alice 4711 \\ud800","top_p":1e400',
    ],
)
def test_the_reason_of_a_rejection_repeats_no_word_of_the_record(prompt: bytes) -> None:
    body = b'{"error":{"message":"invalid text \'Alice 4711\' for the model","code":"alice"}}'
    assert (
        reason_of(body, request=b'{"model":"m","prompt":%b}' % prompt)
        == "…: invalid text '… …' for the model"
    )


@pytest.mark.parametrize("said", ["'My name is Al...fghijkl'", "'for abcdefgh", "ABCDEFGHI..."])
def test_the_reason_of_a_rejection_repeats_no_part_of_a_long_word(said: str) -> None:
    found = reason_of(orjson.dumps({"error": said}), request=b'{"prompt":"for Alice abcdefghijkl"}')
    assert "fgh" not in found.casefold()


def test_a_long_reason_is_truncated() -> None:
    assert len(reason_of(b'{"error":"%b"}' % (b"x" * 10_000), request=b"{}")) <= 300


def test_a_response_that_is_nested_too_deeply_is_described() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_response(b'{"a":\n' + DEEPER + b"}")


@pytest.mark.parametrize("value", NO_VALUES_OF_PYTHON)
def test_a_response_loses_nothing_but_its_line_breaks(value: bytes) -> None:
    body = b'{\r\n  "choices": [\n%b],"usage":{"prompt_tokens":3,\n"completion_tokens":2}}' % value
    text, usage = parse_response(body)
    assert text == body.replace(b"\n", b"").replace(b"\r", b"")
    assert (usage.prompt_tokens, usage.total_tokens) == (3, 5)


@pytest.mark.parametrize(
    "body", [b'{"a":"\xff"}', b'{"a":1e400', b'{"a":"b\nc"}', b'{"a":1e400}{}']
)
def test_a_response_that_is_not_json_is_described(body: bytes) -> None:
    with pytest.raises(ValueError, match="not valid JSON"):
        parse_response(body)


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
def test_a_prediction_is_kept_whatever_the_server_says_about_its_tokens(
    usage: bytes, total: int
) -> None:
    body = b'{"id":"x","usage":%b}' % usage
    text, found = parse_response(body)
    assert (text, found.total_tokens) == (body, total)


def test_the_sum_of_the_largest_numbers_of_tokens_can_be_stored() -> None:
    largest = TokenUsage(
        prompt_tokens=MAX_COUNT, completion_tokens=MAX_COUNT, total_tokens=MAX_COUNT
    )
    assert sum([largest, largest], start=NO_USAGE) == largest


@pytest.mark.parametrize(
    "members", [b"", b',"choices":[]', b',"data":null', b',"output":[],"status":"failed"']
)
def test_a_response_that_is_only_an_error_is_invalid(members: bytes) -> None:
    with pytest.raises(ValueError, match="an error in spite of its status"):
        parse_response(b'{"error":{"message":"c4nary"}%b}' % members)


@pytest.mark.parametrize(
    "error", [b"null", b"{}", b'{"message":"a part of the output is missing"}']
)
def test_a_response_with_a_result_is_kept_whatever_its_error(error: bytes) -> None:
    body = b'{"choices":[{"index":0}],"error":%b}' % error
    assert parse_response(body) == (body, NO_USAGE)


def test_a_byte_order_mark_before_a_response_is_ignored() -> None:
    assert parse_response(b'\xef\xbb\xbf{"choices":[]}') == (b'{"choices":[]}', NO_USAGE)
