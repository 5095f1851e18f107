"""The requests that are made of records."""

import json
from base64 import b64encode
from typing import Any

import pytest

from inferrun.contract import Request
from inferrun.plugins import ContractError
from inferrun_runner.protocols.prompts.bodies import Bodies, encoded
from inferrun_runner.protocols.prompts.templates import InvalidRecord, Templates

PNG = b"\x89PNG\r\n\x1a\n0000"
JPEG = b"\xff\xd8\xff\xe00000"
SCHEMA = {"type": "object", "properties": {"team": {"enum": ["web", "app"]}}}


def bodies(system: str = "", **request: Any) -> tuple[Bodies, Templates]:  # Any: a field
    templates = Templates(parameters={"product": "p"}, run={"id": "uid"}, max_bytes=10_000)
    return Bodies(Request.model_validate(request), templates, model="m", system=system), templates


def body(row: dict[str, Any], system: str = "", **request: Any) -> Any:  # Any: JSON
    return bodies(system, **request)[0].body_of(row)


def test_a_chat_has_the_system_message_first() -> None:
    sent = body(
        {"title": "a", "age": 7},
        "For {{ params.product }}.",
        prompt="Sort {{ title }}",
        maxTokens=5,
        responseSchema=SCHEMA,
        body={"temperature": 0, "seed": "{{ age }}", "user": "id {{ age }}", "stop": ["\n"]},
    )
    assert sent == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "For p."},
            {"role": "user", "content": "Sort a"},
        ],
        "max_tokens": 5,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": SCHEMA},
        },
        "temperature": 0,
        "seed": 7,
        "user": "id 7",
        "stop": ["\n"],
    }


def test_members_of_the_body_replace_those_that_the_runner_sets() -> None:
    sent = body({}, prompt="x", maxTokens=5, body={"model": "other", "max_tokens": 6})
    assert (sent["model"], sent["max_tokens"]) == ("other", 6)


def test_messages_are_templates_of_their_own() -> None:
    given = [
        {"role": "user", "content": "{{ a }}"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c {{ b }}"},
    ]
    made, templates = bodies(messages=given)
    assert made.body_of({"a": "1", "b": 2})["messages"][2] == {"role": "user", "content": "c 2"}
    assert templates.columns == ("a", "b")


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("Completion", {"model": "m", "prompt": "ü a", "max_tokens": 5}),
        ("Response", {"model": "m", "input": "ü a", "max_output_tokens": 5}),
    ],
)
def test_each_task_has_its_members(task: str, expected: object) -> None:
    assert body({"a": "a"}, task=task, prompt="ü {{ a }}", maxTokens=5) == expected


def test_a_response_has_instructions_and_a_text_format() -> None:
    sent = body({}, "s", task="Response", prompt="x", responseSchema=SCHEMA)
    assert sent["instructions"] == "s"
    assert sent["text"] == {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA}}


@pytest.mark.parametrize("task", ["Embedding", "Moderation"])
def test_several_texts_are_one_request(task: str) -> None:
    made, _ = bodies(task=task, prompt="{{ a }}", body={"dimensions": 3})
    assert made.joined([made.body_of({"a": one}) for one in "xyz"]) == {
        "model": "m",
        "input": ["x", "y", "z"],
        "dimensions": 3,
    }


def test_documents_are_compared_with_the_prompt() -> None:
    assert body(
        {"q": "a", "d": ["b", "c"]}, task="Rerank", prompt="{{ q }}", documentsColumn="d"
    ) == {
        "model": "m",
        "query": "a",
        "documents": ["b", "c"],
    }
    assert body({"q": "a", "d": "b"}, task="Score", prompt="{{ q }}", documentsColumn="d") == {
        "model": "m",
        "text_1": "a",
        "text_2": "b",
    }


@pytest.mark.parametrize("documents", [[], "a", None, [1], ["a", None]])
def test_documents_must_be_texts(documents: object) -> None:
    with pytest.raises(InvalidRecord, match="column 'd' must be a list of texts"):
        body({"d": documents}, task="Rerank", prompt="x", documentsColumn="d")


@pytest.mark.parametrize(
    ("value", "url"),
    [
        (PNG, "data:image/png;base64," + b64encode(PNG).decode()),
        (JPEG, "data:image/jpeg;base64," + b64encode(JPEG).decode()),
        (b64encode(PNG).decode(), "data:image/png;base64," + b64encode(PNG).decode()),
        ({"b64": b64encode(JPEG).decode()}, "data:image/jpeg;base64," + b64encode(JPEG).decode()),
        (b"RIFF1234WEBP", "data:image/webp;base64,UklGRjEyMzRXRUJQ"),
        ("https://host/a.png", "https://host/a.png"),
        ("data:image/png;base64,AAAA", "data:image/png;base64,AAAA"),
        ({"bytes": PNG, "path": "a.png"}, "data:image/png;base64," + b64encode(PNG).decode()),
        ({"bytes": PNG, "path": None}, "data:image/png;base64," + b64encode(PNG).decode()),
        (
            {"path": "a.png", "bytes": {"b64": b64encode(PNG).decode()}},
            "data:image/png;base64," + b64encode(PNG).decode(),
        ),
        ({"bytes": None, "path": "https://host/a.png"}, "https://host/a.png"),
        ({"url": "https://host/a.png"}, "https://host/a.png"),
        ({"url": "data:image/png;base64,AAAA"}, "data:image/png;base64,AAAA"),
        ([PNG], "data:image/png;base64," + b64encode(PNG).decode()),
    ],
)
def test_an_image_is_a_part_of_the_message(value: object, url: str) -> None:
    (message,) = body(
        {"photo": value}, prompt="What?", images=[{"column": "photo", "detail": "low"}]
    )["messages"]
    image = {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
    assert message["content"] == [{"type": "text", "text": "What?"}, image]


def test_images_of_a_response_have_a_form_of_their_own() -> None:
    (message,) = body(
        {"a": PNG, "b": None},
        task="Response",
        prompt="x",
        images=[{"column": "a"}, {"column": "b"}],
    )["input"]
    assert [part["type"] for part in message["content"]] == ["input_text", "input_image"]


NO_IMAGES: dict[str, list[object]] = {
    "column 'photo' has no image": [
        *(b"BM", b"", "", "hello", "ü" * 16, "file:///etc/passwd", 7, True, ["a"], [[PNG]], {}),
        *(
            {"b64": "?"},
            {"b64": None},
            {"bytes": PNG, "width": 1},
            {"path": "a.png"},
            {"bytes": [1, 2], "path": None},
        ),
        *(
            {"url": "file:///a.png"},
            {"url": None},
            {"url": "http://host/a", "detail": "low"},
            {"image_url": {"url": "http://h"}},
        ),
    ],
    "column 'photo' has the path of an image without its bytes": [{"bytes": None, "path": "a.png"}],
    "column 'photo' has null among its images": [
        [PNG, None],
        [None],
        {"bytes": None, "path": None},
        {"bytes": None},
    ],
}


@pytest.mark.parametrize(
    ("why", "value"), [(why, value) for why, values in NO_IMAGES.items() for value in values]
)
def test_what_is_no_image_is_an_error_of_its_record(why: str, value: object) -> None:
    with pytest.raises(InvalidRecord, match=why):
        body({"photo": value}, prompt="x", images=[{"column": "photo"}])


def test_a_list_has_several_images_or_none() -> None:
    images = [{"column": "a"}, {"column": "b"}]
    row = {"a": [PNG, {"bytes": JPEG, "path": None}], "b": [PNG]}
    (message,) = body(row, prompt="x", images=images)["messages"]
    kinds = [part["image_url"]["url"][:15] for part in message["content"][1:]]
    assert kinds == ["data:image/png;", "data:image/jpeg", "data:image/png;"]
    (message,) = body({"a": [], "b": None}, prompt="x", images=images)["messages"]
    assert message["content"] == "x"


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (
            {"task": "Embedding", "prompt": "a", "body": {"user": "{{ b }}"}},
            "request.body: reads columns, but a request",
        ),
        (
            {"prompt": "a", "body": {"x": ["{{ b"]}},
            "request.body.x.0: line 1: unexpected end of template",
        ),
    ],
)
def test_a_request_that_cannot_be_made_names_its_field(
    request_: dict[str, Any], message: str
) -> None:
    with pytest.raises(ContractError) as raised:
        bodies(**request_)
    assert str(raised.value).startswith(message)


def test_a_body_has_integers_of_any_size_and_surrogates() -> None:
    sent = encoded(body({"a": 2**70, "b": "\ud800"}, prompt="{{ b }}", body={"seed": "{{ a }}"}))
    assert json.loads(sent)["seed"] == 2**70
    assert json.loads(sent)["messages"][0]["content"] == "\ud800"
