"""Lines with the same key are the same request; a key is never shared by others."""

import json
import random
from typing import Any

import pytest

from inferrun_runner.protocols.openai.requests import NotARequest, parse_request, request_key
from tests.unit.runner.protocols.openai.test_usual_requests import GENERATED, LINE, varied


def line(
    custom_id: str = "a", url: str = "/v1/chat/completions", **body: Any
) -> bytes:  # Any: JSON
    request = {"custom_id": custom_id, "method": "POST", "url": url, "body": {"input": "x", **body}}
    return json.dumps(request).encode()


def test_lines_that_differ_in_their_ids_have_one_key() -> None:
    assert request_key(line("a"), is_any=True) == request_key(line("b"), is_any=True)


def test_generated_lines_with_one_key_are_sent_alike() -> None:
    chance = random.Random(2)  # noqa: S311  not for security
    sent = dict[bytes, tuple[str, bytes] | None]()
    shared = 0
    for _ in range(GENERATED):
        made = varied(chance)
        key = request_key(made, is_any=True)
        if key is None:
            continue
        shared += key in sent
        assert sent.setdefault(key, sent_of(made)) == sent_of(made), made
    assert shared > GENERATED / 10
    assert len(sent) > GENERATED / 10
    assert sum(one is not None for one in sent.values()) > GENERATED / 100


def sent_of(made: bytes) -> tuple[str, bytes] | None:
    try:
        return parse_request(made, model="")
    except NotARequest:
        return None


@pytest.mark.parametrize(
    "made",
    [
        line(temperature=0),
        line(temperature=0.0),
        line(seed=5),
        line(url="/chat/completions", temperature=0),
        line(url="/v1/embeddings"),
        line(url="/embeddings"),
        line(url="/v2/rerank"),
        line(temperature=0).replace(b"/v1/chat", rb"\/v1\/chat"),
    ],
)
def test_an_answer_that_does_not_vary_has_a_key(made: bytes) -> None:
    assert request_key(made, is_any=False) == request_key(made, is_any=True) is not None


@pytest.mark.parametrize(
    "made",
    [
        line(),
        line(temperature=0.1),
        line(temperature=None),
        line(temperature=False),
        line(temperature="0"),
        line(seed=None),
        line(seed=1.5),
        line(temperature=0, tools=[]),
        line(temperature=0, previous_response_id="r"),
        line(response_format={"temperature": 0}),
        line(url="/chat/completions"),
        line(url="/v1/files"),
        line().replace(b"/v1/chat", rb"\/v1\/chat"),
        line(temperature=1).replace(b'{"input"', b'{"temperature": 0, "input"'),
        line(temperature=1, other={}).replace(b"{}", b'{"temperature": 0}'),
        b'{"url": "/v1/embeddings", "custom_id": "a", "body": {}}',
        b"not JSON",
        LINE.replace(b'"seed": 18446744073709551617', b'"seed": {"seed": 1}'),
    ],
)
def test_an_answer_that_may_vary_has_none(made: bytes) -> None:
    assert request_key(made, is_any=False) is None
