"""What a run executes of its config: the values in paths, URLs, queries and JSON, and the misuses
that are reported."""

from typing import Any

import pytest

from inferrun.fields.problems import describe
from inferrun.resources import InferenceConfig, InferenceRun, parse_config, parse_run
from inferrun.resources.resolution import Resolved, resolve
from inferrun.resources.validation import config_problems, run_problems
from tests.unit.misuses import DAY, MISUSES, MODEL, SECRET, Misuse

VALUES = {"day": "2026-11-21", "name": "Tom & Jerry's 100%", "dir": "a/b", "quote": '"}\n'}
DECLARED = [
    {"name": "day"},
    {"name": "name"},
    {"name": "quote"},
    {"name": "dir", "allowSlashes": True},
]


def config_with(input_: dict[str, Any], *, image: str | None = None) -> InferenceConfig:
    storage = {
        "input": input_,
        "output": {"file": {"claimName": "data", "path": "out/$(run.name)"}},
    }
    spec = {"kserve": MODEL, "storage": storage, "parameters": DECLARED, "image": image}
    return parse_config({"metadata": {"name": "iris"}, "spec": spec})


def run_with(**spec: object) -> InferenceRun:
    metadata = {"name": "iris-nightly", "namespace": "models"}
    return parse_run({"metadata": metadata, "spec": {"configRef": {"name": "iris"}, **spec}})


def resolved(input_: dict[str, Any], *, image: str | None = None) -> Resolved:
    config = config_with(input_, image=image)
    assert config_problems(config) == ()
    run = run_with(parameters=VALUES, interval={**DAY, "timeZone": "Europe/Rome"})
    found = resolve(run, config, is_our_runner=image is None)
    assert found.problems == ()
    return found


def answer(misuse: Misuse) -> str:
    """What is said about the config and the run, without a server."""
    config = parse_config({"metadata": {"name": "iris"}, "spec": misuse.config_spec})
    run = parse_run(
        {"metadata": {"name": "iris-1", "namespace": "models"}, "spec": misuse.run_spec("iris")}
    )
    if wrong := config_problems(config):
        return f"config: {describe(wrong)}"
    wrong = run_problems(run) or resolve(run, config, is_our_runner=True).problems
    return f"run: {describe(wrong)}"


@pytest.mark.parametrize("misuse", MISUSES, ids=lambda one: one.title)
def test_a_misuse_is_reported_with_its_field_and_cause(misuse: Misuse) -> None:
    found = answer(misuse)
    assert found.startswith(f"{misuse.where}: ")
    assert misuse.field in found
    assert misuse.said in found


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("in/$(params.day).jsonl", "in/2026-11-21.jsonl"),
        ("in/$(params.dir)/$(interval.start:%Y/%m/%d)", "in/a/b/2026/11/21"),
        ("in/$(interval.start)", "in/2026-11-21T00:00:00Z"),
        ("in/$(params.name)/", "in/Tom & Jerry's 100%/"),
        ("in//x/$$(params.day)", "in//x/$(params.day)"),
    ],
)
def test_a_value_is_part_of_a_path(path: str, wanted: str) -> None:
    found = resolved({"file": {"claimName": "data", "path": path}})
    assert found.input == {"file": {"claimName": "data", "path": wanted}}
    assert found.output["file"]["path"] == "out/iris-nightly"


@pytest.mark.parametrize(
    ("url", "wanted"),
    [
        (
            "https://a.example/$(params.name)/x",
            "https://a.example/Tom%20%26%20Jerry%27s%20100%25/x",
        ),
        (
            "https://a.example/x?n=$(params.name)&b=1",
            "https://a.example/x?n=Tom%20%26%20Jerry%27s%20100%25&b=1",
        ),
        ("https://a.example/$(params.dir)?d=$(params.dir)", "https://a.example/a/b?d=a%2Fb"),
        ("http://a:8080?from=$(interval.start)", "http://a:8080?from=2026-11-21T00:00:00Z"),
    ],
)
def test_a_value_is_encoded_in_a_url(url: str, wanted: str) -> None:
    assert resolved({"http": {"url": url}}).input == {"http": {"url": wanted}}


def test_a_value_stays_within_a_string_of_json_and_a_header() -> None:
    call = {
        "endpointRef": {"name": "handler"},
        "path": "/read?day=$(params.day)",
        "headers": ["X-Names: $(params.name); $(params.dir)", "Accept: */*"],
        "payload": '{"a": ["$(params.quote)", 1], "b": "$$(x)"}',
    }
    found = resolved({"krateo": {"api": call}}).input["krateo"]["api"]
    assert found["path"] == "/read?day=2026-11-21"
    assert found["headers"] == ["X-Names: Tom & Jerry's 100%; a/b", "Accept: */*"]
    assert found["payload"] == '{"a": ["\\"}\\n", 1], "b": "$(x)"}'


def test_what_surrounds_the_strings_of_json_stays_as_it_is() -> None:
    payload = '{ "a\\u0041" : 1e400,\n"n":0.10000000000000000001, "a": "\\ud83d\\ude00$(params.day)", "a":"\\"$$(x)" }'
    found = resolved({"krateo": {"api": {"endpointRef": {"name": "handler"}, "payload": payload}}})
    assert found.input["krateo"]["api"]["payload"] == (
        '{ "a\\u0041" : 1e400,\n"n":0.10000000000000000001, "a": "\U0001f6002026-11-21", "a":"\\"$(x)" }'
    )


def test_a_value_of_a_query_is_bound_once_however_often_it_is_used() -> None:
    query = (
        "select a -- since '$(params.day)\n, '$$(params.day)' as b, $q$ '$q$ from t /* $(run.name) /* */ ' */ "
        "where c = $(params.quote) and d >= $(interval.start)::timestamptz and e = $(params.quote) or f = 'it''s'"
    )
    found = resolved({"sql": {**SECRET, "query": query}}).input["sql"]
    assert found["query"] == (
        "select a -- since '$(params.day)\n, '$(params.day)' as b, $q$ '$q$ from t /* $(run.name) /* */ ' */ "
        "where c = current_setting('inferrun.p1') and d >= current_setting('inferrun.p2')::timestamptz "
        "and e = current_setting('inferrun.p1') or f = 'it''s'"
    )
    assert found["values"] == ['"}\n', "2026-11-21T00:00:00Z"]


def test_a_custom_image_gets_what_only_it_understands_unmodified() -> None:
    own = {"s3": {"anything": ["$(params.day)", "$(nothing"]}, "mine": {"a": "$(run.name)"}}
    found = resolved(own | {"file": {"claimName": "data", "path": "$(params.day)"}}, image="mine:1")
    assert found.input == own | {"file": {"claimName": "data", "path": "2026-11-21"}}


def test_storage_without_placeholders_is_the_same_object() -> None:
    given = {"file": {"claimName": "data", "path": "in/$5 (five)"}}
    assert resolved(given).input == given


def test_defaults_are_parameters_of_the_run_unless_it_sets_others() -> None:
    declared = [
        {"name": "region", "default": "eu"},
        {"name": "day", "default": "today"},
        {"name": "other"},
    ]
    spec = {"kserve": MODEL, "storage": {}, "image": "mine:1", "parameters": declared}
    config = parse_config({"metadata": {"name": "iris"}, "spec": spec})
    found = resolve(run_with(parameters={"day": "2026-11-21"}), config, is_our_runner=False)
    assert found.parameters == {"region": "eu", "day": "2026-11-21"}


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        (r"[\w-]{1,9}", "a_b-9"),
        (r"[^\d\s]{3}", "äöü"),
        (r"\\w", "\\w"),
        ("(?i)eu|us", "EU"),
        ("[0-9a-f]{8}-[0-9a-f]{4}", "0123abcd-0123"),
        (r"\W\S\D", "-/x"),
    ],
)
def test_a_pattern_matches_the_whole_value(pattern: str, value: str) -> None:
    spec = {
        "kserve": MODEL,
        "storage": {},
        "image": "mine:1",
        "parameters": [{"name": "a", "pattern": pattern}],
    }
    config = parse_config({"metadata": {"name": "iris"}, "spec": spec})
    assert config_problems(config) == ()
    assert resolve(run_with(parameters={"a": value}), config, is_our_runner=False).problems == ()
    for wrong in (f"{value}\n", f" {value}", f"{value}{value} "):
        [problem] = resolve(run_with(parameters={"a": wrong}), config, is_our_runner=False).problems
        assert problem.field == "spec.parameters.a"


def test_a_long_value_that_is_named_many_times_is_rejected_before_it_fills_the_memory() -> None:
    call = {"endpointRef": {"name": "handler"}, "headers": ["X: " + "$(params.day)" * 300] * 64}
    config = config_with({"krateo": {"api": call}})
    found = resolve(run_with(parameters={"day": "x" * 60_000}), config, is_our_runner=True)
    assert "is too long, because a contract has at most 262144 bytes" in describe(found.problems)
    assert len(describe(found.problems)) <= 2048


def test_what_surrounds_a_placeholder_is_not_shown_where_it_may_be_a_credential() -> None:
    call = {"endpointRef": {"name": "handler"}, "headers": ["Authorization: Bearer $(hunter2"]}
    config = config_with({"krateo": {"api": call}})
    text = describe(config_problems(config))
    assert text.startswith(
        "spec.storage.input.krateo.api.headers.0 is invalid; a placeholder in it has no closing"
    )
    assert "hunter2" not in text
