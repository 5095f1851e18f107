"""What responses say, and whether answers follow a schema."""

import base64
import json
import struct
from typing import Any

import pyarrow
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from inferrun.contract import Request
from inferrun.formats.typed_values import array_of_values
from inferrun.plugins import ArrowRecords, ContractError, JsonRecords, RecordError, join_results
from inferrun.runner_report import TokenUsage
from inferrun_runner.protocols.prompts.answers import (
    InvalidAnswer,
    Text,
    members_of,
    moderations_of,
    scores_of,
    text_of,
    vectors_of,
)
from inferrun_runner.protocols.prompts.asking import Reply, Validation, ask
from inferrun_runner.protocols.prompts.predictions import Predictions, form_of_schema

SCHEMA: dict[str, Any] = {  # Any: JSON
    "type": "object",
    "required": ["team"],
    "properties": {
        "team": {"enum": ["web", "app"]},
        "urgent": {"type": ["boolean", "null"]},
        "score": {"type": "number", "minimum": 0},
        "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "place": {"$ref": "#/$defs/Place"},
        "any": {},
    },
    "$defs": {"Place": {"type": "object", "properties": {"x": {"type": "number"}}}},
}


def chat(message: dict[str, Any], **choice: Any) -> dict[str, Any]:  # Any: JSON
    return {
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", **message},
                "finish_reason": "stop",
                **choice,
            }
        ]
    }


def test_the_text_of_each_task_is_found() -> None:
    assert text_of("Chat", chat({"content": "a"})) == Text("a", "stop")
    assert (
        text_of(
            "Chat",
            chat({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
        ).text
        == "ab"
    )
    assert text_of("Chat", chat({"content": None, "refusal": "no"})) == Text(
        None, "stop", refusal="no"
    )
    assert text_of("Completion", {"choices": [{"text": "a", "finish_reason": "length"}]}) == Text(
        "a", "length"
    )
    output = [
        {"type": "reasoning", "summary": []},
        {
            "type": "message",
            "content": [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}],
        },
    ]
    assert text_of("Response", {"status": "completed", "output": output}) == Text("ab", "stop")
    cut = {"output": output, "incomplete_details": {"reason": "max_output_tokens"}}
    assert text_of("Response", cut).finish_reason == "length"


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"status": "incomplete", "incomplete_details": None}, "length"),
        ({"output": [{"type": "message", "status": "incomplete", "content": []}]}, "length"),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}},
            "content_filter",
        ),
        # llama.cpp 2026-10
        ({"status": "completed", "usage": {"input_tokens": 22, "output_tokens": 4}}, "length"),
        ({"status": "completed", "usage": {"input_tokens": 22, "output_tokens": 3}}, "stop"),
    ],
)
# Any: JSON
def test_a_response_that_was_cut_off_has_not_stopped(said: dict[str, Any], reason: str) -> None:
    assert text_of("Response", {"output": [], **said}, limit=4).finish_reason == reason


def test_a_limit_that_is_no_number_is_the_servers_affair() -> None:
    said = {"status": "completed", "output": [], "usage": {"input_tokens": 1, "output_tokens": 4}}
    assert text_of("Response", said, limit="4").finish_reason == "stop"


@pytest.mark.parametrize("status", ["failed", "cancelled", "queued", "in_progress"])
def test_a_response_that_did_not_complete_is_no_answer(status: str) -> None:
    with pytest.raises(InvalidAnswer, match=f"its status is {status}"):
        text_of("Response", {"status": status, "output": []})


def test_logprobs_and_calls_are_found() -> None:
    found = text_of(
        "Chat",
        chat(
            {
                "content": None,
                "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            logprobs={"content": [{"token": "a", "logprob": -0.5, "top_logprobs": []}]},
        ),
    )
    assert found.tool_calls == [{"name": "f", "arguments": "{}"}]
    assert found.logprobs == [{"token": "a", "logprob": -0.5}]
    completion = {
        "choices": [{"text": "a", "logprobs": {"tokens": ["a"], "token_logprobs": [-1.0]}}]
    }
    assert text_of("Completion", completion).logprobs == [{"token": "a", "logprob": -1.0}]
    output = [{"type": "function_call", "name": "f", "arguments": "{}"}]
    assert text_of("Response", {"output": output}).tool_calls == [{"name": "f", "arguments": "{}"}]


@pytest.mark.parametrize(
    "response", [{}, {"choices": []}, {"choices": [1]}, {"choices": [{}]}, chat({"content": 7})]
)
def test_a_response_without_an_answer_is_described(response: Any) -> None:  # Any: JSON
    with pytest.raises(InvalidAnswer):
        text_of("Chat", response)


def test_lists_are_in_the_order_of_the_records() -> None:
    data = [{"index": 1, "embedding": [3, 4.5]}, {"index": 0, "embedding": [1, 2]}]
    assert vectors_of({"data": data}, records=2) == [[1, 2], [3, 4.5]]
    ranked = [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]
    assert scores_of({"results": ranked}, documents=2) == [0.1, 0.9]
    assert scores_of({"data": [{"index": 0, "score": 0.5}]}, documents=1) == [0.5]
    judged = {"flagged": True, "categories": {"a": True}, "category_scores": {"a": 0.9}}
    assert moderations_of({"results": [{**judged, "id": 1}]}, records=1) == [judged]


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        [{"index": 0, "embedding": [1]}],
        [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}],
        [{"index": 0, "embedding": [1]}, {"index": 1}, {"index": 2}],
        [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": "AAAA"}],
        [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": []}],
        [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [True]}],
    ],
)
def test_embeddings_that_do_not_fit_the_records_are_described(data: object) -> None:
    with pytest.raises(InvalidAnswer):
        vectors_of({"data": data}, records=2)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"team":"web"}', ""),
        ('{"team":"c4nary"}', "/team: not one of 2 values"),
        ("{}", "/: 'team' is missing"),
        ("[]", "/: must be object"),
        ('{"team":"web","score":-1}', "/score: violates minimum 0"),
        ('{"team":"web","tags":[1]}', "/tags/0: must be string"),
        ("c4nary", "not valid JSON"),
        ('{"team":NaN}', "not valid JSON"),
        (None, "empty"),
    ],
)
def test_an_answer_is_judged_without_repeating_it(text: str | None, fault: str) -> None:
    value, found = Validation(SCHEMA).judge(Text(text, "stop"))
    assert found == fault
    assert (value is None) == bool(fault)


def test_a_refusal_and_an_answer_that_was_cut_off_are_not_valid() -> None:
    assert Validation(SCHEMA).judge(Text(None, "stop", refusal="c4nary")) == (
        None,
        "the model refused",
    )
    assert Validation(SCHEMA).judge(Text('{"team":"web"}', "length"))[0] is None


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "array"}, "request.responseSchema.type: must be object"),
        ({"type": "objekt"}, r"request.responseSchema: not a valid JSON schema at \$.type"),
        (
            {"type": "object", "properties": {"a": {"$ref": "http://host/schema"}}},
            "does not lead to a part of the schema",
        ),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}},
            "does not lead to a part of the schema",
        ),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused_and_nothing_is_loaded(
    schema: dict[str, Any], message: str
) -> None:
    with pytest.raises(ContractError, match=message):
        Validation(schema)


async def test_an_answer_is_asked_again_with_what_is_wrong() -> None:
    texts, sent = iter(["no", '{"team":"db"}', '{"team":"web"}']), []

    async def send(body: dict[str, Any]) -> Reply:  # Any: JSON
        sent.append(body)
        return Reply(
            Text(next(texts), "stop"),
            {},
            TokenUsage(prompt_tokens=1, completion_tokens=2, total_tokens=3),
        )

    body = {"messages": [{"role": "user", "content": "x"}], "seed": 1}
    answered = await ask(send, body, validation=Validation(SCHEMA), retries=2)
    assert (answered.value, answered.fault, answered.asked) == ({"team": "web"}, "", 3)
    assert answered.usage.total_tokens == 9
    assert [one["role"] for one in sent[2]["messages"]] == ["user", "assistant", "user"]
    assert sent[2]["messages"][1]["content"] == '{"team":"db"}'
    assert "/team: not one of 2 values" in sent[2]["messages"][2]["content"]
    assert body == {"messages": [{"role": "user", "content": "x"}], "seed": 1}


@pytest.mark.parametrize("retries", [0, 2])
async def test_asking_ends_after_so_many_tries(retries: int) -> None:
    async def send(_: dict[str, Any]) -> Reply:  # Any: JSON
        return Reply(Text("no", "stop"), {}, TokenUsage())

    answered = await ask(send, {"prompt": "x"}, validation=Validation(SCHEMA), retries=retries)
    assert (answered.fault, answered.asked) == ("not valid JSON", retries + 1)


def test_a_prediction_has_the_properties_of_the_schema_with_their_types() -> None:
    request = Request(prompt="x", responseSchema=SCHEMA, body={"tools": [{}]})
    found = Predictions(members_of(request, form_of_schema(SCHEMA))).predicted()
    assert {field.name: str(field.type) for field in found} == {
        "text": "string",
        "finish_reason": "string",
        "prompt_tokens": "int64",
        "completion_tokens": "int64",
        "tool_calls": "list<item: struct<name: string, arguments: string>>",
        "team": "string",
        "urgent": "bool",
        "score": "double",
        "count": "int64",
        "tags": "list<item: string>",
        "place": "struct<x: double>",
        "any": "string",
    }


def test_a_schema_that_contains_itself_ends() -> None:
    tree = {
        "type": "object",
        "properties": {"left": {"$ref": "#"}, "loop": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"$ref": "#/$defs/a"}},
    }
    assert Predictions(form_of_schema(tree)).predicted() is not None


def test_a_property_must_not_have_the_name_of_another_member() -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    with pytest.raises(
        ContractError, match=r"request.responseSchema.properties.text: a prediction has a member"
    ):
        members_of(Request(prompt="x", responseSchema=schema), form_of_schema(schema))


def test_results_are_objects_or_columns() -> None:
    predictions = Predictions({"a": "int64", "b": "json"})
    found: list[dict[str, Any] | RecordError | None] = [
        {"a": 2**40, "b": {"c": 1}},
        RecordError("invalid_answer", "x"),
        {"a": 2**70, "b": None},
    ]
    results = predictions.results(found)
    assert isinstance(results.values, JsonRecords)
    assert [json.loads(text) for text in results.values.texts] == [found[0], None, found[2]]
    assert set(results.errors) == {1}
    predictions.use_type(predictions.predicted())
    results = predictions.results(found)
    assert isinstance(results.values, ArrowRecords)
    assert results.values.table.column("prediction").to_pylist() == [
        {"a": 2**40, "b": '{"c":1}'},
        None,
        None,
    ]
    assert results.errors[2] == RecordError(
        "invalid_prediction", "the prediction does not fit column 'a' of type int64"
    )


VALUES = st.one_of(
    st.none(),
    st.text(st.characters(codec=None), max_size=3),
    st.integers(-(2**63) - 1, 2**63),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
)


@given(st.lists(st.fixed_dictionaries(dict.fromkeys("tnxb", VALUES)), min_size=1, max_size=6))
@example([{"t": "\ud800", "n": 2**63, "x": 1, "b": 0}])
@example([{"t": "\u00fc", "n": -(2**63), "x": 0.1, "b": True}, dict.fromkeys("tnxb")])
def test_predictions_are_the_same_columns_one_by_one_and_together(
    rows: list[dict[str, Any]],
) -> None:
    predictions = Predictions({"t": "string", "n": "int64", "x": "double", "b": "bool"})
    kind = predictions.predicted()
    predictions.use_type(kind)
    found = join_results([predictions.results([row]) for row in rows])
    expected, misfits = array_of_values(rows, kind)
    assert list(found.errors) == misfits
    assert isinstance(found.values, ArrowRecords)
    assert (len(found), found.values.schema) == (len(rows), found.values.table.schema)
    column = found.values.table.column("prediction")
    column.validate(full=True)
    assert column.equals(expected)
    assert found.values.part(1, 3).table.column(0).equals(expected.slice(1, 2))
    assert found.values.nbytes > 0


def test_an_embedding_of_another_length_is_an_error_of_its_record() -> None:
    predictions = Predictions({"embedding": ["float"]})
    predictions.use_type(pyarrow.struct([("embedding", pyarrow.list_(pyarrow.float32(), 2))]))
    results = predictions.results([{"embedding": [1, 0.1]}, {"embedding": [1]}])
    assert set(results.errors) == {1}
    assert isinstance(results.values, ArrowRecords)
    assert results.values.table.column("prediction").type.field("embedding").type == pyarrow.list_(
        pyarrow.float32(), 2
    )


def test_embeddings_in_base64_are_decoded() -> None:
    vector = base64.b64encode(struct.pack("<2f", 0.5, -2.0)).decode()
    assert vectors_of({"data": [{"index": 0, "embedding": vector}]}, records=1) == [[0.5, -2.0]]
