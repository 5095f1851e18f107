"""Problems that the CRD's schema cannot detect: each names the field, its value and what is
allowed."""

import re
import time
from typing import Any

import pytest
from pydantic import JsonValue, ValidationError

from inferrun.fields.problems import Problem, describe, parse_problems
from inferrun.resources import InferenceConfig, parse_config, parse_run
from inferrun.resources.validation import config_problems, config_warnings, run_problems

KRATEO = {
    "krateo": {"api": {"path": "/compute/in", "verb": "POST", "endpointRef": {"name": "handler"}}}
}
FILE = {"file": {"claimName": "data", "path": "in/iris.jsonl"}}
MODEL = {"modelUrl": "iris.models/v2/models/iris/infer", "modelVersion": "v2"}


def config(**spec: object) -> InferenceConfig:
    storage = {"input": KRATEO, "output": FILE}
    return parse_config(
        {"metadata": {"name": "iris"}, "spec": {"storage": storage, "kserve": MODEL, **spec}}
    )


def stored_config(**end: JsonValue) -> InferenceConfig:
    """A config with this input, which may be invalid."""
    return config(storage={"input": end, "output": FILE})


def handler_config(**api: JsonValue) -> InferenceConfig:
    return stored_config(krateo={"api": {"endpointRef": {"name": "handler"}, **api}})


def fields(problems: tuple[Problem, ...]) -> list[str]:
    return [problem.field for problem in problems]


def test_a_typical_config_has_no_problems() -> None:
    assert config_problems(config()) == ()


def test_a_token_for_the_model_server_needs_a_service_account() -> None:
    model = {**MODEL, "tokenAudience": "models"}
    [problem] = config_problems(config(kserve=model))
    assert (problem.field, problem.value) == ("spec.kserve.tokenAudience", "models")
    assert problem.allowed == "but serviceAccountName is not set, whose token it would be"
    assert config_problems(config(kserve=model, serviceAccountName="caller")) == ()


@pytest.mark.parametrize(
    "audience",
    [
        "https://kubernetes.default.svc",
        "https://kubernetes.default.svc.cluster.local",
        "kubernetes.default.svc.example:443",
        "https://kubernetes.default/",
        "kubernetes",
    ],
)
def test_a_token_for_the_api_server_is_not_sent_to_a_model(audience: str) -> None:
    model = {**MODEL, "tokenAudience": audience}
    [problem] = config_problems(config(kserve=model, serviceAccountName="caller"))
    assert (problem.field, "API server" in problem.allowed) == ("spec.kserve.tokenAudience", True)


@pytest.mark.parametrize("audience", ["models", "https://kubernetes.example", "kubernetes-models"])
def test_a_token_for_another_audience_is_allowed(audience: str) -> None:
    assert (
        config_problems(
            config(kserve={**MODEL, "tokenAudience": audience}, serviceAccountName="caller")
        )
        == ()
    )


FROM_SECRET = {"secretKeyRef": {"name": "gateway", "key": "api-key"}}


@pytest.mark.parametrize(
    ("model", "field", "hint"),
    [
        (
            {"headers": [{"name": "Content-Length", "value": "1"}]},
            "headers.0.name",
            "set by the HTTP client",
        ),
        (
            {"headers": [{"name": "content-type", "value": "text/plain"}]},
            "headers.0.name",
            "set by the protocol",
        ),
        ({"headers": [{"name": "a b", "value": "1"}]}, "headers.0.name", "must consist of letters"),
        (
            {"headers": [{"name": "api-key", "value": "c4nary"}]},
            "headers.0.value",
            "use valueFrom with a Secret",
        ),
        ({"headers": [{"name": "X-A"}]}, "headers.0", "one of value and valueFrom"),
        (
            {"headers": [{"name": "X-A", "value": "1", "valueFrom": FROM_SECRET}]},
            "headers.0",
            "one of value",
        ),
        (
            {"headers": [{"name": "X-A", "value": "1"}, {"name": "x-a", "valueFrom": FROM_SECRET}]},
            "headers.1.name",
            "set twice",
        ),
        (
            {
                "headers": [{"name": "Authorization", "valueFrom": FROM_SECRET}],
                "tokenAudience": "models",
            },
            "headers.0.name",
            "tokenAudience is set",
        ),
        (
            {"headers": [{"name": "grpc-timeout", "value": "1"}], "protocolVersion": "grpc-v2"},
            "headers.0.name",
            "gRPC",
        ),
        (
            {"headers": [{"name": "x-a-bin", "value": "1"}], "protocolVersion": "grpc-v2"},
            "headers.0.name",
            "gRPC",
        ),
        ({"proxyUrl": "https://proxy:3128"}, "proxyUrl", "must be the http URL"),
        ({"proxyUrl": "http://"}, "proxyUrl", "must be the http URL"),
        ({"proxyUrl": "http://u:c4nary@proxy:3128"}, "proxyUrl", "key proxy-url"),
        (
            {"proxyUrl": "http://proxy:3128", "protocolVersion": "grpc-v2"},
            "proxyUrl",
            "uses no proxy",
        ),
    ],
)
def test_headers_and_proxies_that_cannot_be_used_are_reported_without_values(
    model: dict[str, object], field: str, hint: str
) -> None:
    url = {"modelUrl": "iris:8081"} if model.get("protocolVersion") == "grpc-v2" else MODEL
    [problem] = config_problems(config(kserve={**url, **model}, serviceAccountName="caller"))
    assert problem.field == f"spec.kserve.{field}"
    assert hint in problem.allowed
    assert "c4nary" not in str(problem)


def test_headers_may_have_values_or_secrets() -> None:
    headers = [
        {"name": "Host", "value": "iris.example"},
        {"name": "api-key", "valueFrom": FROM_SECRET},
    ]
    model = {**MODEL, "headers": headers, "proxyUrl": "http://proxy.egress:3128"}
    assert config_problems(config(kserve=model)) == ()


def test_a_config_for_a_custom_image_may_have_any_label_and_no_model() -> None:
    storage = {"input": {"custom": {"s3": {"any": "thing"}}, "s3": {"any": ["thing"]}}}
    custom = config(image="example.com/mine:1", kserve=None, storage=storage)
    assert config_problems(custom) == ()


def test_a_label_of_a_custom_image_must_hold_an_object() -> None:
    problems = config_problems(
        config(image="mine:1", storage={"output": {"custom": "s3://bucket"}})
    )
    assert describe(problems) == 'spec.storage.output.custom is "s3://bucket"; must be an object'


def test_two_placements_with_different_values_are_reported_with_both_values() -> None:
    problems = config_problems(config(modelUrl="http://other", modelVersion="v2"))
    assert describe(problems) == (
        'spec.modelUrl is "http://other"; but spec.kserve.modelUrl is "iris.models/v2/models/iris/infer"; '
        "set only one of them, or both to the same value"
    )


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"kserve": {"modelUrl": "iris", "modelVersion": "v3"}}, "spec.kserve.modelVersion"),
        (
            {"kserve": {"modelUrl": "iris", "protocolVersion": "grpc"}},
            "spec.kserve.protocolVersion",
        ),
        ({"kserve": {"modelUrl": "iris", "protocolVersion": "grpc-v2"}}, "spec.kserve.modelUrl"),
        (
            {"kserve": {"modelUrl": "http://iris:80", "protocolVersion": "grpc-v2"}},
            "spec.kserve.modelUrl",
        ),
        ({"kserve": {"modelUrl": "grpc://iris:80"}}, "spec.kserve.modelUrl"),
        (
            {"kserve": {"serviceRef": {"name": "iris"}, "protocolVersion": "grpc-v2"}},
            "spec.kserve.protocolVersion",
        ),
        ({"kserve": None}, "spec.kserve.modelUrl"),
        ({"kserve": {"modelUrl": "ftp://iris/x"}}, "spec.kserve.modelUrl"),
        ({"kserve": {"modelUrl": "http://"}}, "spec.kserve.modelUrl"),
        ({"kserve": {"modelUrl": "iris:99999/x"}}, "spec.kserve.modelUrl"),
        ({"image": "mine:1", "kserve": {"modelVersion": "v3"}}, "spec.kserve.modelVersion"),
        ({"resources": {"limits": {"cpus": "1"}}}, "spec.resources.limits.cpus"),
        ({"storage": {"input": {"x": {"y": "z" * 300_000}}}, "image": "mine:1"}, "spec.storage"),
    ],
)
def test_an_invalid_value_is_reported_once(spec: dict[str, object], problem: str) -> None:
    assert fields(config_problems(config(**spec))) == [problem]


@pytest.mark.parametrize(
    ("request_", "limit", "fits"),
    [
        ("500m", 1, True),
        ("1500m", "1.5", True),
        ("1501m", "1.5", False),
        ("1Gi", "1G", False),
        ("1G", "1Gi", True),
        ("1e3", "1k", True),
        (2, 1, False),
    ],
)
def test_a_request_must_not_exceed_its_limit(
    request_: int | str, limit: int | str, *, fits: bool
) -> None:
    problems = config_problems(
        config(resources={"requests": {"cpu": request_}, "limits": {"cpu": limit}})
    )
    assert fields(problems) == ([] if fits else ["spec.resources.requests.cpu"])
    assert fits or problems[0].allowed == f"must be at most the limit, {limit}"


@pytest.mark.parametrize(
    ("limit", "size"),
    [
        ("chunk", 0),
        ("record", "1Xi"),
        ("window", "512Ki"),
        ("spool", "2Ti"),
        ("response", "1.5Gi"),
        ("chunk", -1),
    ],
)
def test_a_limit_that_is_not_a_size_within_the_bounds_is_reported(
    limit: str, size: int | str
) -> None:
    (problem,) = config_problems(config(limits={limit: size}))
    assert problem.field == f"spec.limits.{limit}"
    assert "must be a size from 1" in problem.allowed


@pytest.mark.parametrize(
    "quantity", ["1e999999999", "1e1000000", "1e-999999999", "1E100", "many", "", "1Zi", "NaN"]
)
def test_a_quantity_that_cannot_be_compared_in_a_moment_is_reported(quantity: str) -> None:
    resources = {"requests": {"cpu": quantity}, "limits": {"cpu": quantity}}
    found = describe(config_problems(config(resources=resources)))
    assert "spec.resources.requests.cpu" in found
    assert "spec.resources.limits.cpu" in found


@pytest.mark.parametrize(
    "quantity", [1, "1", "0.5", ".5", "5.", "+1", "500m", "1e3", "1E-2", "12e99", "1E", "2Ei", "3n"]
)
def test_a_quantity_of_kubernetes_is_accepted(quantity: int | str) -> None:
    assert not config_problems(config(resources={"limits": {"cpu": quantity}}))


@pytest.mark.parametrize("protocol", ["v1", "v2", "grpc-v2", "openai"])
def test_every_protocol_of_the_default_runner_is_accepted(protocol: str) -> None:
    assert (
        config_problems(config(kserve={"modelUrl": "iris:8081", "protocolVersion": protocol})) == ()
    )


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"schedule": "0 0 30 2 *"}, "spec.schedule"),
        ({"schedule": "12345"}, "spec.schedule"),
        ({"schedule": "@daily", "timeZone": "Europe/Nowhere"}, "spec.timeZone"),
        ({"parameters": {"job_uid": "x"}}, "spec.parameters.job_uid"),
        ({"parameters": {str(number): "x" * 65536 for number in range(5)}}, "spec.parameters"),
    ],
)
def test_an_invalid_run_is_reported(spec: dict[str, object], field: str) -> None:
    run = parse_run({"metadata": {"name": "a"}, "spec": {"configRef": {"name": "iris"}, **spec}})
    assert fields(run_problems(run)) == [field]


def test_a_typical_run_and_a_typical_schedule_have_no_problems() -> None:
    for extra in ({}, {"schedule": "0 9 * * MON", "timeZone": "Europe/Rome"}):
        run = parse_run(
            {"metadata": {"name": "a"}, "spec": {"configRef": {"name": "iris"}, **extra}}
        )
        assert run_problems(run) == ()


def test_a_resource_that_cannot_be_parsed_is_reported_with_field_and_value() -> None:
    with pytest.raises(ValidationError) as error:
        parse_run({"metadata": {"name": "a"}, "spec": {"configRef": {}, "timeoutSeconds": -5}})
    assert describe(parse_problems(error.value)) == (
        'spec.configRef.name is not set; it is required; and spec.timeoutSeconds is "-5"; '
        "allowed: input should be greater than or equal to 0"
    )


def test_a_long_value_is_truncated() -> None:
    problems = config_problems(config(kserve={"modelUrl": "ftp://" + "x" * 2000}))
    assert len(str(problems[0])) < 400


def test_a_message_names_at_most_five_problems() -> None:
    file: dict[str, JsonValue] = {f"key{number}": number for number in range(8)}
    message = describe(config_problems(stored_config(file=file)))
    assert message.count("unknown key") == 5
    assert message.endswith("; and more problems")
    assert "key4" in message
    assert "key5" not in message


def test_a_hundred_thousand_unknown_keys_cost_milliseconds_and_give_a_short_message() -> None:
    config = stored_config(file={f"key{number}": number for number in range(170_000)})
    began = time.process_time()
    message = describe(config_problems(config))
    assert time.process_time() - began < 0.2
    assert len(message) <= 2048


@pytest.mark.parametrize(
    "value", ["v" * 1_000_000, ["v" * 1_000_000], {"k" * 1_000_000: 1}, {"k": "v" * 1_000_000}]
)
def test_a_long_key_or_value_costs_milliseconds_and_is_truncated(value: JsonValue) -> None:
    config = stored_config(file={"claimName": value, "path": value, "c" * 100_000: value})
    began = time.process_time()
    message = describe(config_problems(config))
    assert time.process_time() - began < 0.2
    assert len(message) <= 2048


@pytest.mark.parametrize(
    ("header", "fault"),
    [
        ("content-length: 5", "the header content-length is set by the HTTP client"),
        ("Transfer-Encoding: chunked", "the header Transfer-Encoding is set by the HTTP client"),
        ("Host: other", "the header Host is set by the HTTP client"),
        ("Connection: close", "the header Connection is set by the HTTP client"),
        ("X\nY: c4nary", "the name must consist of"),
        ("X Y: c4nary", "the name must consist of"),
        (": c4nary", "the name must consist of"),
        ("X: c4nary\r\nZ: 1", "the value must not contain control characters"),
        ("X: \x00c4nary", "the value must not contain control characters"),
        ("c4nary", 'must have the form "Name: value"'),
    ],
)
def test_a_header_that_breaks_the_framing_is_rejected_without_its_value(
    header: str, fault: str
) -> None:
    message = describe(config_problems(handler_config(headers=["Accept: */*", header])))
    assert message.startswith("spec.storage.input.krateo.api.headers.1 is invalid; ")
    assert fault in message
    assert "c4nary" not in message


@pytest.mark.parametrize(
    "api",
    [
        {"headers": "Authorization: c4nary"},
        {"headers": [["Authorization: c4nary"]]},
        {"payload": {"token": "c4nary"}},
        {"payload": ["c4nary"]},
        {"token": "c4nary"},
    ],
)
def test_confidential_values_are_not_shown(api: dict[str, JsonValue]) -> None:
    message = describe(config_problems(handler_config(**api)))
    assert message
    assert "c4nary" not in message


def test_the_credentials_of_a_model_url_are_not_shown() -> None:
    spec = {
        "storage": {},
        "kserve": {"modelUrl": "ftp://user:c4nary@host/x?token=c4nary"},
        "modelUrl": "http://u:c4nary@h",
    }
    message = describe(config_problems(parse_config({"metadata": {"name": "a"}, "spec": spec})))
    assert "spec.kserve.modelUrl" in message
    assert "c4nary" not in message


def test_a_header_with_a_credential_is_reported_as_a_warning_without_its_value() -> None:
    config = handler_config(
        headers=["Accept: */*", "Authorization: Bearer c4nary", "X-Api-Key: c4nary"]
    )
    assert config_problems(config) == ()
    first, second = config_warnings(config)
    assert first.startswith(
        "spec.storage.input.krateo.api.headers.1 (Authorization) can be seen by everyone"
    )
    assert "headers.2 (X-Api-Key)" in second
    assert "c4nary" not in first + second


def test_of_many_headers_with_credentials_the_first_ones_are_named_and_the_others_counted() -> None:
    warnings = config_warnings(
        handler_config(headers=[f"X-Api-Key-{number}: c4nary" for number in range(8)])
    )
    assert len(warnings) == 6
    assert warnings[-1] == "3 more headers can be seen by everyone who may read this config"


def test_a_header_may_come_from_a_secret() -> None:
    source: dict[str, JsonValue] = {
        "name": "Authorization",
        "secretKeyRef": {"name": "handler", "key": "header"},
    }
    assert config_problems(handler_config(headersFrom=[source])) == ()
    message = describe(
        config_problems(handler_config(headersFrom=[{**source, "name": "Content-Length"}]))
    )
    assert "spec.storage.input.krateo.api.headersFrom.0.name" in message
    message = describe(config_problems(handler_config(headersFrom=[{"name": "X"}])))
    assert "headersFrom.0.secretKeyRef" in message


def test_an_unknown_protocol_is_reported_unless_an_image_may_provide_it() -> None:
    kserve = {"modelUrl": "http://llm:8000", "protocolVersion": "opanai"}
    (problem,) = config_problems(config(kserve=kserve))
    assert problem.field == "spec.kserve.protocolVersion"
    assert "v1, v2, grpc-v2, openai and http, did you mean openai?" in problem.allowed
    assert config_problems(config(image="example.com/mine:1", kserve=kserve)) == ()


DATABASE = {"credentialsRef": {"name": "database"}}
GCS = {
    "bucket": "data",
    "path": "p",
    "workloadIdentity": {"audience": "//iam.googleapis.com/projects/1"},
}


@pytest.mark.parametrize(
    ("end", "storage", "field", "allowed"),
    [
        *(
            (
                "input",
                {"krateo": {"api": {"endpointRef": {"name": "h"}, **api}}},
                f"krateo.api.{field}",
                hint,
            )
            for api, field, hint in (
                ({"pth": "/x"}, "pth", "did you mean path?"),
                ({"verb": "FETCH"}, "verb", "GET, POST"),
                ({"headers": "a: b"}, "headers", "must be a list"),
            )
        ),
        ("input", {"file": {**FILE["file"], "fmt": "csv"}}, "file.fmt", "claimName"),
        (
            "input",
            {"run": {"nmae": "nightly", "name": "nightly"}},
            "run.nmae",
            "did you mean name?",
        ),
        ("output", {"file": {"path": "x"}}, "file.claimName", "required"),
        ("output", {"file": {"claimName": "data", "path": "../x"}}, "file.path", 'without ".."'),
        ("output", {"file": "data"}, "file", "must be an object"),
        ("output", {"krateo": {"api": {"path": "/x"}}}, "krateo.api.endpointRef", "required"),
        ("output", {"gcp": {"bucket": "b"}}, "gcp", "did you mean gcs?"),
        (
            "output",
            {"gcs": {"bucket": "data", "path": "p", "region": "eu"}},
            "gcs.region",
            "bucket",
        ),
        (
            "output",
            {"gcs": {**GCS, "credentialsRef": {"name": "key"}}},
            "gcs.workloadIdentity",
            "excludes credentialsRef",
        ),
        (
            "output",
            {"gcs": {**GCS, "workloadIdentity": {"audience": "https://kubernetes"}}},
            "gcs.workloadIdentity.audience",
            "pattern",
        ),
        ("output", {"files": {"path": "b"}}, "files", "did you mean file?"),
        ("output", {"s3": {"bucket": "data", "path": "out", "key": "x"}}, "s3.key", "bucket"),
        ("output", {}, "", "one of the labels file, krateo, s3, gcs, azure"),
        ("output", {**FILE, **KRATEO}, "", "only one label"),
        ("input", {"http": {}}, "http.url", "required"),
        ("input", {"http": {"url": "ftp://host/rows.jsonl"}}, "http.url", "http or https URL"),
        (
            "input",
            {"http": {"url": "http://user:c4nary@host/"}},
            "http.url",
            "must not contain user information",
        ),
        ("output", {"http": {"url": "http://host/"}}, "http", "for the input only"),
        (
            "input",
            {"s3": {"bucket": "data", "path": "p", "endpoint": "s3.host"}},
            "s3.endpoint",
            "http or https URL",
        ),
        ("input", {"sql": DATABASE}, "sql.query", "required for an input"),
        (
            "input",
            {"sql": {**DATABASE, "query": "select 1", "table": "t"}},
            "sql.table",
            "is for an output",
        ),
        (
            "input",
            {"s3": {"bucket": "data", "path": "p", "kmsKeyId": "key"}},
            "s3.kmsKeyId",
            "is for an output",
        ),
        (
            "output",
            {"file": {**FILE["file"], "layout": {"partSize": 0}}},
            "file.layout.partSize",
            "a size",
        ),
        (
            "output",
            {
                "file": {
                    "claimName": "a",
                    "path": "p",
                    "layout": {"partitions": "Input", "single": True},
                }
            },
            "file.layout.single",
            "remove it or layout.partitions",
        ),
        ("output", {"sql": DATABASE}, "sql.table", "required for an output"),
        (
            "output",
            {"sql": {**DATABASE, "table": "t; drop table t"}},
            "sql.table",
            "letters, digits and underscores",
        ),
        (
            "output",
            {"sql": {**DATABASE, "table": "t", "query": "select 1"}},
            "sql.query",
            "is for an input",
        ),
        (
            "input",
            {"file": {**FILE["file"], "missingColumns": "Skip"}},
            "file.missingColumns",
            "Fail",
        ),
        *(
            (
                "input",
                {"file": {**FILE["file"], "format": "csv", "csv": options}},
                f"file.{field}",
                allowed,
            )
            for options, field, allowed in (
                (
                    {"delimiter": ";;"},
                    "csv.delimiter",
                    'must be one ASCII character, such as ";"; a tab is "\\t"',
                ),
                ({"delimiter": "'", "quote": "'"}, "csv", "must be different characters"),
                ({"encoding": "utf-16"}, "csv.encoding", "utf-8"),
                (
                    {"columns": ["a", "b", "a"]},
                    "csv.columns",
                    "each column needs a name of its own",
                ),
                ({"separator": ";"}, "csv.separator", "delimiter"),
            )
        ),
        (
            "input",
            {"http": {"url": "https://a.example", "csv": {}}},
            "http.csv",
            "is for the format csv, not jsonl",
        ),
        ("input", {"run": {}}, "run.name", "set either name"),
        ("input", {"run": {"name": "Nightly Run"}}, "run.name", "pattern"),
        ("input", {"run": {"schedule": 5}}, "run.schedule", "must be a string"),
    ],
)
def test_the_settings_of_a_store_are_checked_for_their_end(
    end: str,
    storage: dict[str, Any],  # Any: free-form on purpose
    field: str,
    allowed: str,
) -> None:
    """One object for each message; `tests.store_objects` has those of every kind."""
    problems = config_problems(
        config(storage={"input": FILE, "output": FILE, end: storage}, serviceAccountName="a")
    )
    assert fields(problems) == [f"spec.storage.{end}.{field}".rstrip(".")]
    assert allowed in problems[0].allowed
    assert "c4nary" not in describe(problems)


def test_complete_settings_of_a_dataset_are_valid() -> None:
    dataset = {
        **FILE["file"],
        "path": "in/dt=*/*.parquet",
        "format": "parquet",
        "partitions": {"dt": "date32"},
        "types": {"a": "decimal(12, 2)"},
        "missingColumns": "Null",
        "allowEmpty": True,
    }
    assert config_problems(config(storage={"input": {"file": dataset}, "output": FILE})) == ()


def test_results_are_in_the_folders_of_an_input_that_has_some() -> None:
    output = {"file": {**FILE["file"], "layout": {"partitions": "Input"}}}
    assert config_problems(config(storage={"input": FILE, "output": output})) == ()
    given = {"input": {"http": {"url": "https://files.example/a.jsonl"}}, "output": output}
    (problem,) = config_problems(config(storage=given))
    assert str(problem) == (
        'spec.storage.output.file.layout.partitions is "Input"; an input of the label http has no partitions; remove the field'
    )
    assert config_problems(config(storage=given, image="example.com/mine:1")) == ()


def test_a_workload_identity_needs_a_service_account() -> None:
    problems = config_problems(config(storage={"input": FILE, "output": {"gcs": GCS}}))
    assert fields(problems) == ["spec.storage.output.gcs.workloadIdentity"]


def test_a_namespace_of_a_secret_that_would_be_ignored_is_reported() -> None:
    given = {"name": "a", "key": "k"}
    hidden = [
        {"name": "X", "secretKeyRef": one} for one in (given, {**given, "namespace": "theirs"})
    ]
    api = {"path": "/x", "endpointRef": {"name": "a"}, "headersFrom": hidden}
    found = config_problems(config(storage={"input": {"krateo": {"api": api}}, "output": FILE}))
    assert fields(found) == ["spec.storage.input.krateo.api.headersFrom.1.secretKeyRef.namespace"]


@pytest.mark.parametrize(
    "storage",
    [
        {"http": {"url": "https://host/", "token": "c4nary"}},
        {"http": {"url": "https://user:c4nary@host/?key=c4nary" + "x" * 5000}},
        {"http": "https://user:c4nary@host/?key=c4nary"},
        {"sql": {**DATABASE, "query": "select 1", "password": "c4nary"}},
        {
            "sql": {
                "credentialsRef": {"name": "database", "password": "c4nary"},
                "query": "select 1",
            }
        },
        {"sql": "postgresql://user:c4nary@host/database"},
        {"s3": {"bucket": "data", "path": "p", "secretAccessKey": "c4nary"}},
    ],
)
# Any: as above
def test_a_misplaced_credential_is_reported_without_its_value(storage: dict[str, Any]) -> None:
    text = describe(config_problems(config(storage={"input": storage, "output": FILE})))
    assert "spec.storage.input" in text
    assert "c4nary" not in text


TENSORS = {"inputs": [{"columns": ["a"]}]}
FILES = {"input": FILE, "output": FILE}


@pytest.mark.parametrize(
    ("spec", "field", "hint"),
    [
        (
            {"joinSource": "Input", "passThroughColumns": ["a"]},
            "spec.joinSource",
            "remove spec.passThroughColumns",
        ),
        (
            {"passThroughColumns": ["a", "error"]},
            "spec.passThroughColumns.1",
            "results have a member of that name",
        ),
        ({"passThroughColumns": ["a", "a"]}, "spec.passThroughColumns.1", "named twice"),
        (
            {"tensors": TENSORS, "kserve": {**MODEL, "protocolVersion": "openai"}},
            "spec.tensors",
            "v2, grpc-v2",
        ),
        (
            {"storage": {"input": KRATEO, "output": FILE}, "tensors": TENSORS},
            "spec.storage.input.krateo",
            "no named",
        ),
        (
            {"storage": {"input": FILE, "output": KRATEO}, "joinSource": "Input"},
            "spec.storage.output.krateo",
            "no named",
        ),
    ],
)
# Any: JSON
def test_columns_that_cannot_be_used_are_reported(
    spec: dict[str, Any], field: str, hint: str
) -> None:
    (problem,) = config_problems(config(**{"storage": FILES, **spec}))
    assert problem.field == field
    assert hint in str(problem)


PROMPT = {"prompt": "{{ title }}"}
OPENAI = {**MODEL, "protocolVersion": "openai"}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            {"request": PROMPT, "kserve": {**MODEL, "protocolVersion": "v2"}},
            "spec.request is .*with openai and http",
        ),
        (
            {"request": PROMPT, "tensors": TENSORS},
            'spec.tensors is "set with spec.request"; remove one of them',
        ),
        ({"request": {}}, "spec.request.prompt is not set; required by the task Chat"),
        (
            {"request": {**PROMPT, "messages": [{"role": "user", "content": "a"}]}},
            "spec.request.prompt is .*messages is set",
        ),
        (
            {
                "request": {
                    **PROMPT,
                    "system": "a",
                    "systemFrom": {"configMapKeyRef": {"name": "a", "key": "b"}},
                }
            },
            "spec.request.system is .*systemFrom is set, too",
        ),
        (
            {"request": {"task": "Rerank", "prompt": "a"}},
            "spec.request.documentsColumn is not set; required by the task Rerank",
        ),
        (
            {"request": {**PROMPT, "task": "Embedding", "maxTokens": 7}},
            'maxTokens is "7"; not allowed with the task Embedding',
        ),
        (
            {"request": {**PROMPT, "documentsColumn": "a"}},
            'documentsColumn is "a"; not allowed with the task Chat',
        ),
        (
            {"request": {**PROMPT, "responseSchema": {"type": "array"}}},
            'responseSchema.type is "array"; must be object',
        ),
        (
            {"request": {**PROMPT, "body": {"stream": True}}},
            'spec.request.body.stream is "true"; must be false',
        ),
        ({"request": {**PROMPT, "body": {"n": 2}}}, 'spec.request.body.n is "2"; must be 1'),
        (
            {"request": {**PROMPT, "body": {"a": "x" * 70_000}}},
            "spec.request.body is .*at most 65536 bytes",
        ),
        (
            {"request": {**PROMPT, "responseSchema": {"type": "object", "title": "x" * 40_000}}},
            "at most 32768 bytes",
        ),
        (
            {
                "request": {
                    "messages": [{"role": "system", "content": "a"}],
                    "images": [{"column": "b"}],
                }
            },
            "spec.request.images is .*but no message is of the user",
        ),
        (
            {"kserve": {**MODEL, "protocolVersion": "http"}},
            "spec.request is not set; the protocol http requires it",
        ),
        (
            {"request": PROMPT, "kserve": {**MODEL, "protocolVersion": "http"}},
            "spec.request.prompt is .*protocol http",
        ),
        (
            {"request": {"path": "/a"}, "kserve": {**MODEL, "protocolVersion": "http"}},
            "spec.request.outputs is not set",
        ),
        (
            {
                "request": PROMPT,
                "storage": {
                    **FILES,
                    "input": {"file": {"claimName": "a", "path": "b", "format": "openai"}},
                },
            },
            'spec.storage.input.file.format is "openai"; with spec.request the input must have columns',
        ),
    ],
)
# Any: JSON
def test_a_request_that_cannot_be_made_is_reported(spec: dict[str, Any], problem: str) -> None:
    found = "; ".join(
        map(str, config_problems(config(**{"kserve": OPENAI, "storage": FILES, **spec})))
    )
    assert re.search(problem, found), found


@pytest.mark.parametrize(
    ("request_", "protocol"),
    [
        (PROMPT, "openai"),
        (
            {
                **PROMPT,
                "responseSchema": {"type": "object"},
                "system": "a",
                "images": [{"column": "b"}],
            },
            "openai",
        ),
        ({"task": "Rerank", "prompt": "a", "documentsColumn": "b"}, "openai"),
        ({"body": {"a": 1}, "outputs": [{"name": "a", "path": "/b", "type": "double"}]}, "http"),
    ],
)
# Any: JSON
def test_a_request_that_can_be_made_has_no_problems(
    request_: dict[str, Any], protocol: str
) -> None:
    kserve = {**MODEL, "protocolVersion": protocol}
    assert config_problems(config(kserve=kserve, storage=FILES, request=request_)) == ()


def test_columns_of_a_custom_image_may_be_used_with_any_label_and_protocol() -> None:
    # Any: JSON
    spec: dict[str, Any] = {
        "tensors": TENSORS,
        "joinSource": "Input",
        "image": "example.com/mine:1",
    }
    assert config_problems(config(**spec, kserve={"protocolVersion": "mine"})) == ()
    assert config_problems(config(storage=FILES, tensors=TENSORS, passThroughColumns=["a"])) == ()


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        (
            {"storage": {"input": {"http": {"url": "http://a/b"}}, "output": FILE}},
            "spec.storage.input has http",
        ),
        ({"canaryRecords": 3}, "spec.canaryRecords (3)"),
    ],
)
# Any: JSON
def test_shards_that_the_default_runner_cannot_have_are_reported(
    spec: dict[str, Any], hint: str
) -> None:
    given = {
        "storage": {"input": FILE, "output": FILE},
        "kserve": {"modelUrl": "a/v2/models/a/infer"},
        "shards": 2,
    }
    assert config_problems(config(**given)) == ()
    assert config_problems(config(**{**given, **spec, "shards": 1})) == ()
    (problem,) = config_problems(config(**{**given, **spec}))
    assert (problem.field, problem.value) == ("spec.shards", "2")
    assert hint in problem.allowed
