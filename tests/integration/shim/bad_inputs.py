"""Invalid specs: generated from the schemas of both resources, a few for every field, and written by hand.

Each entry is a valid spec with one mistake. `field` is the JSON name that the answer must contain.
"""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from deploy.crds.definitions import inference_config, inference_run
from inferrun.resources.storage import KNOWN_LABELS
from tests.integration.crds.manifests import CONFIG, REJECTED, RUN, SPREAD, affinity

Json = dict[str, Any]  # Any: manifests are free-form JSON, invalid on purpose
Path = tuple[str | int, ...]

API: Final[Json] = {
    "path": "/x",
    "verb": "POST",
    "headers": ["Accept: */*"],
    "headersFrom": [{"name": "X-Key", "secretKeyRef": {"name": "handler", "key": "key"}}],
    "payload": "{}",
    "endpointRef": {"name": "handler", "namespace": "data"},
}
STORES: Final[tuple[tuple[str, str, Json], ...]] = (
    (
        "input",
        "s3",
        {
            "bucket": "data",
            "path": "in/",
            "endpoint": "http://minio:9000",
            "region": "eu",
            "credentialsRef": {"name": "keys"},
            "format": "jsonl",
        },
    ),
    ("input", "http", {"url": "http://files/rows", "credentialsRef": {"name": "files"}, "format": "jsonl"}),
    ("input", "sql", {"credentialsRef": {"name": "database"}, "query": "select 1", "key": "id"}),
    ("output", "sql", {"credentialsRef": {"name": "database"}, "table": "results"}),
)
"""The labels without a schema in the CRD, which the shim checks."""

GOOD: Final[dict[str, Json]] = {
    CONFIG: {
        "kserve": {"modelName": "a", "modelUrl": "http://host/v2/models/a/infer", "modelVersion": "v2"},
        "storage": {"input": {"krateo": {"api": API}}, "output": {"file": {"claimName": "c", "path": "p"}}},
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "1"}},
        "credentialsRef": {"name": "pull", "namespace": "data"},
    },
    RUN: {"configRef": {"name": "config", "namespace": "models"}, "parameters": {"day": "1"}},
}
SCHEDULE_FIELDS: Final = frozenset(
    {
        "timeZone",
        "concurrencyPolicy",
        "startingDeadlineSeconds",
        "jitterSeconds",
        "successfulJobsHistoryLimit",
        "failedJobsHistoryLimit",
    }
)


@dataclass(frozen=True)
class BadInput:
    """An invalid spec; one of `fields` must be named."""

    title: str
    kind: str
    spec: Any  # Any: as in Json
    fields: tuple[str, ...]


def bad_inputs() -> list[BadInput]:
    """All of them, each with a title of its own."""
    generated = [
        *_of_schema(CONFIG, inference_config()),
        *_of_schema(RUN, inference_run()),
    ]
    known = [BadInput(one.title, one.kind, one.spec, (one.field,)) for one in REJECTED]
    return [*generated, *known, *_by_hand()]


def known_fields() -> set[str]:
    """The names of all fields of both resources, and of the labels that the shim checks."""
    specs = [one["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for one in (inference_config(), inference_run())]
    found = {name for spec in specs for name in _names_in(spec["properties"]["spec"])}
    return found | {
        field.alias or name for model in KNOWN_LABELS.values() for name, field in model.model_fields.items()
    }


def _names_in(node: Json) -> Iterator[str]:
    for name, child in node.get("properties", {}).items():
        yield name
        yield from _names_in(child)
    for below in ("items", "additionalProperties"):
        if isinstance(node.get(below), dict):
            yield from _names_in(node[below])


def _of_schema(kind: str, definition: Json) -> Iterator[BadInput]:
    version = definition["spec"]["versions"][0]
    yield from _of_node(kind, version["schema"]["openAPIV3Schema"]["properties"]["spec"], ())


def _of_node(kind: str, node: Json, path: Path) -> Iterator[BadInput]:
    for title, value in _mistakes(node):
        spec = _changed(kind, path, value)
        names = tuple(str(part) for part in path if isinstance(part, str)) or ("spec",)
        yield BadInput(f"{kind}.{'.'.join(map(str, path))}: {title}", kind, spec, names[-1:])
    for name, child in node.get("properties", {}).items():
        yield from _of_node(kind, child, (*path, name))
    if "items" in node:
        yield from _of_node(kind, node["items"], (*path, 0))
    if isinstance(node.get("additionalProperties"), dict):
        yield from _of_node(kind, node["additionalProperties"], (*path, "cpu" if kind == CONFIG else "day"))


def _mistakes(node: Json) -> Iterator[tuple[str, object]]:
    """Values that the schema of a field rules out."""
    if node.get("x-kubernetes-int-or-string"):
        yield "a list", [1]
        yield "an object", {"a": 1}
        return
    match node.get("type"):
        case "string":
            yield "a number", 5
            yield "an object", {"a": "b"}
            yield from _bad_strings(node)
        case "integer":
            yield "a text", "many"
            yield "a fraction", 1.5
            if "minimum" in node:
                yield "too small", node["minimum"] - 1
            if "maximum" in node:
                yield "too large", node["maximum"] + 1
        case "boolean":
            yield "a text", "yes"
            yield "a number", 1
        case "array":
            yield "a text", "text"
            yield "an object", {"a": 1}
            yield from _bad_lists(node)
        case "object":
            yield "a text", "text"
            yield "a list", ["text"]
            if "maxProperties" in node:
                yield "too many members", {f"a{number}": _valid(node) for number in range(node["maxProperties"] + 1)}


def _bad_lists(node: Json) -> Iterator[tuple[str, object]]:
    if node.get("minItems"):
        yield "empty", []
    if "maxItems" in node:
        yield "too long", [_valid(node["items"])] * (node["maxItems"] + 1)


def _valid(node: Json) -> object:
    """A value of the type that the schema requires, for the members of a list or object."""
    match node.get("type"):
        case "string":
            return "a"
        case "array":
            return [_valid(node["items"])]
        case "object":
            return {name: _valid(node["properties"][name]) for name in node.get("required", [])}
        case _:
            return 1


def _bad_strings(node: Json) -> Iterator[tuple[str, str]]:
    if "enum" in node:
        yield "not one of the allowed values", "Perhaps"
        return
    if node.get("minLength"):
        yield "empty", ""
    if "pattern" in node:
        yield "a forbidden form", "No Such/Form!\n"
    if "maxLength" in node and node["maxLength"] <= 4096:
        yield "too long", "a" * (node["maxLength"] + 1)


def _changed(kind: str, path: Path, value: object) -> Any:  # Any: as in Json
    """A valid spec with another value in one place."""
    spec: Any = deepcopy(GOOD[kind])
    if not path:
        return value
    if path[0] == "schedule" or path[0] in SCHEDULE_FIELDS:
        spec |= {"schedule": "@daily"}
    if path[:3] == ("storage", "input", "file"):
        spec["storage"]["input"] = {"file": {"claimName": "c", "path": "p"}}
    if path[:3] == ("storage", "output", "krateo"):
        spec["storage"]["output"] = {"krateo": {"api": deepcopy(API)}}
    place = spec
    for part, following in pairwise(path):
        if isinstance(part, str) and part not in place:
            place[part] = [{}] if isinstance(following, int) else {}
        place = place[part]
    place[path[-1]] = value
    return spec


HEADERS: Final = (
    "Content-Length: 5",
    "content-length: 5",
    "Transfer-Encoding: chunked",
    "Host: other",
    "Connection: close",
    "Keep-Alive: 5",
    "Proxy-Authorization: Basic x",
    "Proxy-Connection: close",
    "TE: trailers",
    "Trailer: X",
    "Upgrade: h2c",
    "Expect: 100-continue",
    "X Y: 1",
    "X\nY: 1",
    "X(Y): 1",
    "Grüße: 1",
    ": 1",
    "no colon",
    "X: a\r\nY: b",
    "X: \x00",
)

SCHEDULES: Final = (
    "",
    "x",
    "* * * *",
    "* * * * * *",
    "60 * * * *",
    "* 24 * * *",
    "* * 0 * *",
    "* * 32 * *",
    "* * * 13 *",
    "* * * * 8",
    "* * * FOO *",
    "* * * * FOO",
    "*/0 * * * *",
    "1- * * * *",
    "5-1 * * * *",
    ",1 * * * *",
    "1,,2 * * * *",
    "L * * * *",
    "* * L * *",
    "* * * * 1#2",
    "@reboot",
    "@every 5",
    "TZ=UTC * * * * *",
    "CRON_TZ=UTC * * * * *",
    "0 0 30 2 *",
    "0 0 31 4 *",
    "-1 * * * *",
    "1.5 * * * *",
    "１ * * * *",
)

TIME_ZONES: Final = ("Rome", "Europe/Roma", "local", "right/UTC", "posix/UTC", "../UTC", "UTC+1", "Factory")

URLS: Final = (
    "ftp://host/x",
    "http://",
    "http://host:0/x",
    "http://host:99999/x",
    "http://[::1/x",
    "host name/x",
    "://",
)

QUANTITIES: Final = ("lots", "1 Gi", "-1", "1XB", "", "1e", "0x10", "1e999999999", "1e-999999999")


def _by_hand() -> Iterator[BadInput]:
    for number, header in enumerate(HEADERS):
        yield _api_mistake(f"header {number}", {"headers": [header]}, "headers")
        name = header.partition(":")[0].strip() or " "
        if number < 16:
            source = {"name": name, "secretKeyRef": {"name": "handler", "key": "key"}}
            yield _api_mistake(f"header {number} from a Secret", {"headersFrom": [source]}, "headersFrom")
    elsewhere = {"name": "X", "secretKeyRef": {"name": "handler", "key": "key", "namespace": "theirs"}}
    yield _api_mistake("header from a Secret of another namespace", {"headersFrom": [elsewhere]}, "namespace")
    for key in ("pth", "Path", "verbs", "header", "payloads", "endpointref", "url", "token"):
        yield _api_mistake(f"unknown key {key}", {key: "x"}, key)
    for expression in SCHEDULES:
        spec = {**GOOD[RUN], "schedule": expression}
        yield BadInput(f"schedule {expression!r}", RUN, spec, ("schedule",))
    for zone in TIME_ZONES:
        spec = {**GOOD[RUN], "schedule": "@daily", "timeZone": zone}
        yield BadInput(f"time zone {zone!r}", RUN, spec, ("timeZone",))
    for url in URLS:
        spec = deepcopy(GOOD[CONFIG])
        spec["kserve"]["modelUrl"] = url
        yield BadInput(f"URL {url!r}", CONFIG, spec, ("modelUrl",))
    for quantity in QUANTITIES:
        yield BadInput(
            f"quantity {quantity!r}", CONFIG, {**GOOD[CONFIG], "resources": {"limits": {"cpu": quantity}}}, ("cpu",)
        )
    for path in ("/etc/passwd", "../x", "a/../../x", "..", "a/..", "\0"):
        storage = {**GOOD[CONFIG]["storage"], "output": {"file": {"claimName": "c", "path": path}}}
        yield BadInput(f"path {path!r}", CONFIG, {**GOOD[CONFIG], "storage": storage}, ("path",))
    for name in ("job_uid", "pod_uid", "predictions"):
        yield BadInput(f"parameter {name}", RUN, {**GOOD[RUN], "parameters": {name: "x"}}, ("parameters",))
    for label in ("flie", "File", "krato", "s3"):
        storage = {**GOOD[CONFIG]["storage"], "input": {label: {}}}
        yield BadInput(f"label {label}", CONFIG, {**GOOD[CONFIG], "storage": storage}, (label,))
    runs: tuple[tuple[str, Json, str], ...] = (
        ("without a name", {}, "name"),
        ("and a schedule", {"name": "nightly", "schedule": "nightly"}, "name"),
        ("with a misspelt name", {"nmae": "nightly"}, "nmae"),
        ("with an impossible name", {"name": "No Such/Name"}, "name"),
        ("with an empty name", {"name": ""}, "name"),
        ("with a number as name", {"name": 5}, "name"),
        ("with an impossible schedule", {"schedule": "@daily"}, "schedule"),
        ("of another namespace", {"name": "nightly", "namespace": "theirs"}, "namespace"),
    )
    for title, given, field in runs:
        yield _store_mistake(f"the output of a run {title}", "input", {"run": given}, field)
    yield _store_mistake("a run to write to", "output", {"run": {"name": "nightly"}}, "run")
    for end, label, good in STORES:
        yield from _of_store(end, label, good)
    yield from _of_options()
    yield from _too_much()


FILES: Final[Json] = {
    "input": {"file": {"claimName": "c", "path": "i"}},
    "output": {"file": {"claimName": "c", "path": "o"}},
}
S3_INPUT: Final[Json] = {"s3": {"bucket": "data", "path": "p"}}


def _of_options() -> Iterator[BadInput]:
    """Values that are valid by themselves, and wrong together with others."""
    service, model = {"serviceRef": {"name": "a"}}, GOOD[CONFIG]["kserve"]
    tensors = {"inputs": [{"columns": ["a"]}], "outputs": [{"name": "b"}]}
    mistakes: tuple[tuple[str, Json, str], ...] = (
        ("shards of a data handler's rows", {"shards": 2}, "shards"),
        (
            "shards that write to a data handler",
            {"shards": 2, "storage": {**FILES, "output": {"krateo": {"api": API}}}},
            "shards",
        ),
        (
            "shards of rows of a database",
            {"shards": 64, "storage": {**FILES, "input": {STORES[2][1]: STORES[2][2]}}},
            "shards",
        ),
        (
            "shards of a file on a web server",
            {"shards": 2, "storage": {**FILES, "input": {STORES[1][1]: STORES[1][2]}}},
            "shards",
        ),
        ("shards and a canary", {"shards": 2, "canaryRecords": 5, "storage": FILES}, "shards"),
        ("all columns and some", {"joinSource": "Input", "passThroughColumns": ["a"], "storage": FILES}, "joinSource"),
        ("columns of a data handler", {"tensors": {"inputs": tensors["inputs"]}}, "storage.input.krateo"),
        ("all columns of a data handler", {"joinSource": "Input"}, "storage.input.krateo"),
        (
            "columns for a data handler",
            {"passThroughColumns": ["a"], "storage": {**FILES, "output": {"krateo": {"api": API}}}},
            "storage.output.krateo",
        ),
        *(
            (f"a column named {name}", {"passThroughColumns": ["a", name], "storage": FILES}, "passThroughColumns.1")
            for name in ("index", "custom_id", "prediction", "error")
        ),
        ("a column twice", {"passThroughColumns": ["a", "b", "a"], "storage": FILES}, "passThroughColumns.2"),
        (
            "tensors with the protocol openai",
            {"tensors": tensors, "storage": FILES, "kserve": {**model, "protocolVersion": "openai"}},
            "tensors",
        ),
        *(
            (
                f"gRPC at {url}",
                {"storage": FILES, "kserve": {"modelUrl": url, "protocolVersion": "grpc-v2"}},
                "modelUrl",
            )
            for url in (
                "host",
                "http://host:8081",
                "grpc://host:8081/path",
                "host:0",
                "host:99999",
                "grpc://:8081",
                "ho st:1",
            )
        ),
        ("gRPC of an object of KServe", {"kserve": {**service, "protocolVersion": "grpc-v2"}}, "protocolVersion"),
        ("no model", {"kserve": {"modelName": "a"}}, "modelUrl"),
        ("nodes of others", {"nodeSelector": {"pool": "team-b"}}, 'nodeSelector is "pool=team-b"'),
        ("nodes of others by affinity", {"affinity": affinity("NotIn", "a")}, "affinity.nodeAffinity"),
        ("reserved nodes", {"tolerations": [{"key": "a", "operator": "Exists"}]}, "setting allowedTolerations"),
        ("a node per shard", {"topologySpreadConstraints": [SPREAD]}, "setting allowedNodeLabels"),
        ("a priority", {"priorityClassName": "system-node-critical"}, "setting allowedPriorityClasses"),
        ("a runtime", {"runtimeClassName": "runc"}, "setting allowedRuntimeClasses"),
        *(
            (f"an error threshold of {value!r}", {"errorThreshold": value}, "errorThreshold")
            for value in ("", "%", "-5%", "five", "100.5%", "0x10", "١%")
        ),
        (
            "a bucket at another address",
            {"storage": {**FILES, "input": _with(S3_INPUT, endpoint="ftp://a")}},
            "endpoint",
        ),
        (
            "a bucket with a password",
            {"storage": {**FILES, "input": _with(S3_INPUT, endpoint="http://u:p@a")}},
            "endpoint",
        ),
        ("a file on no web server", {"storage": {**FILES, "input": {"http": {"url": "file:///etc/passwd"}}}}, "url"),
        (
            "a web server to write to",
            {"storage": {**FILES, "output": {"http": {"url": "http://a/b"}}}},
            "storage.output.http",
        ),
        (
            "a table with a quote",
            {"storage": {**FILES, "output": {"sql": {**STORES[3][2], "table": 'a";--'}}}},
            "table",
        ),
        ("a query to write with", {"storage": {**FILES, "output": {"sql": {**STORES[3][2], "query": "x"}}}}, "query"),
    )
    for title, changes, field in mistakes:
        yield BadInput(title, CONFIG, {**GOOD[CONFIG], **changes}, (field,))


def _with(store: Json, **settings: str) -> Json:
    return {label: {**given, **settings} for label, given in store.items()}


def _of_store(end: str, label: str, good: Json) -> Iterator[BadInput]:
    for key in good:
        for title, value in (("a number", 5), ("a list", [1]), ("too long", "a" * 70_000)):
            yield _store_mistake(f"{end}.{label}.{key}: {title}", end, {label: {**good, key: value}}, key)
    for key in ("tokn", "Password", "secret"):
        yield _store_mistake(f"{end}.{label}: unknown key {key}", end, {label: {**good, key: "x"}}, key)
    for title, whole in (("a text", "x"), ("a list", [good])):
        yield _store_mistake(f"{end}.{label}: {title}", end, {label: whole}, label)
    name = {**good, "credentialsRef": {"name": "No Such Name"}}
    yield _store_mistake(f"{end}.{label}: a name of another form", end, {label: name}, "name")
    elsewhere = {**good, "credentialsRef": {"name": "keys", "namespace": "theirs"}}
    yield _store_mistake(f"{end}.{label}: a Secret of another namespace", end, {label: elsewhere}, "namespace")


def _store_mistake(title: str, end: str, storage: Json, field: str) -> BadInput:
    return BadInput(title, CONFIG, {**GOOD[CONFIG], "storage": {**GOOD[CONFIG]["storage"], end: storage}}, (field,))


def _too_much() -> Iterator[BadInput]:
    many = {f"key{number}": number for number in range(20_000)}
    deep: Json = {}
    for _ in range(100):
        deep = {"a": deep}
    for title, custom in (("many keys", many), ("deep nesting", deep), ("a long text", {"text": "x" * 300_000})):
        storage = {**GOOD[CONFIG]["storage"], "input": {"own": custom}}
        spec = {**GOOD[CONFIG], "image": "own:1", "storage": storage}
        yield BadInput(title, CONFIG, spec, ("spec.storage",))
    parameters = {f"p{number}": "x" * 60_000 for number in range(6)}
    yield BadInput("large parameters", RUN, {**GOOD[RUN], "parameters": parameters}, ("parameters",))


def _api_mistake(title: str, changes: Json, field: str) -> BadInput:
    storage = {**GOOD[CONFIG]["storage"], "input": {"krateo": {"api": {**API, **changes}}}}
    return BadInput(title, CONFIG, {**GOOD[CONFIG], "storage": storage}, (field,))
