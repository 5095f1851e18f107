"""Storage objects of every kind, each with its verdict: what a config's status, the runner and the
API server must agree on.

The kinds: a complete object; one that lacks a member; a member that is null, empty, of another
type, unknown, or of the other end; a value of each form that is allowed or not; members that
exclude or require one another; and what is no object.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]  # Any: storage objects are free-form JSON

SECRET: Final = {"name": "key"}
AUDIENCE: Final = (
    "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/k"
)

COMPLETE: Final[dict[tuple[str, str], Json]] = {
    ("input", "file"): {"claimName": "data", "path": "in"},
    ("output", "file"): {"claimName": "data", "path": "out"},
    ("input", "s3"): {"bucket": "data", "path": "in/", "credentialsRef": SECRET},
    ("output", "s3"): {"bucket": "data", "path": "out", "credentialsRef": SECRET},
    ("input", "gcs"): {"bucket": "data", "path": "in/", "credentialsRef": SECRET},
    ("output", "gcs"): {"bucket": "data", "path": "out", "credentialsRef": SECRET},
    ("input", "azure"): {
        "account": "data",
        "container": "batch",
        "path": "in/",
        "credentialsRef": SECRET,
    },
    ("output", "azure"): {
        "account": "data",
        "container": "batch",
        "path": "out",
        "credentialsRef": SECRET,
    },
    ("input", "http"): {"url": "https://files.example/rows.jsonl", "credentialsRef": SECRET},
    ("input", "sql"): {"credentialsRef": SECRET, "query": "select id, a from t"},
    ("output", "sql"): {"credentialsRef": SECRET, "table": "results.predictions"},
    ("input", "run"): {"name": "nightly"},
    ("input", "krateo"): {"api": {"endpointRef": {"name": "handler"}, "path": "/rows"}},
    ("output", "krateo"): {"api": {"endpointRef": {"name": "handler"}, "path": "/rows"}},
}
"""A complete object of each label and end."""

REQUIRED: Final = {
    "file": ("claimName", "path"),
    "s3": ("bucket", "path"),
    "gcs": ("bucket", "path"),
    "azure": ("account", "container", "path"),
    "http": (),
    "sql": ("credentialsRef",),
    "run": (),
    "krateo": ("api",),
}

_FILES: Final = ("file", "s3", "gcs", "azure")
_BUCKETS: Final = ("s3", "gcs", "azure")

INPUT_ONLY: Final[dict[str, Json]] = {
    **{
        label: {
            "partitions": {"dt": "date32"},
            "missingColumns": "Fail",
            "allowEmpty": False,
            "csv": {},
        }
        for label in _FILES
    },
    "sql": {"query": "select 1", "key": "id"},
}
OUTPUT_ONLY: Final[dict[str, Json]] = {
    **{label: {"flatten": True, "layout": {}} for label in _FILES},
    "http": {"flatten": True, "layout": {}},
    "sql": {"table": "t", "types": {"a": "double"}, "flatten": True},
}
_TEXTS: Final = {
    "file": ("claimName", "path", "format"),
    "s3": ("bucket", "path", "format", "endpoint", "region"),
    "gcs": ("bucket", "path", "format", "endpoint"),
    "azure": ("account", "container", "path", "format", "endpoint"),
    "http": ("url", "format"),
    "sql": (),
    "run": ("name", "schedule"),
    "krateo": (),
}


@dataclass(frozen=True, slots=True)
class StoreObject:
    """A storage object; `field` is that of the first problem below the label, None if the object is
    valid."""

    title: str
    end: str
    label: str
    value: Any  # Any: may be no object at all
    field: str | None = None

    def __str__(self) -> str:
        return f"{self.end} {self.label}: {self.title}"


def store_objects() -> tuple[StoreObject, ...]:
    """All objects."""
    return (*_complete(), *_incomplete(), *_of_other_types(), *_of_the_other_end(), *_forms())


def _complete() -> Iterator[StoreObject]:
    for (end, label), good in COMPLETE.items():
        yield StoreObject("complete", end, label, good)
        others = (OUTPUT_ONLY if end == "input" else INPUT_ONLY).get(label, {})
        for name in sorted(_optional_of(label) - others.keys() - good.keys()):
            yield StoreObject(f"{name} is null", end, label, {**good, name: None})


def _optional_of(label: str) -> set[str]:
    texts = {*_TEXTS[label], *INPUT_ONLY.get(label, ()), *OUTPUT_ONLY.get(label, ())}
    if label in _FILES:
        texts |= {"types"}
    if label == "http":
        texts = {*texts, "types", "csv", "missingColumns", "allowEmpty"} - {"flatten", "layout"}
    return texts - set(REQUIRED[label])


def _incomplete() -> Iterator[StoreObject]:
    for (end, label), good in COMPLETE.items():
        for name in REQUIRED[label]:
            yield StoreObject(
                f"no {name}", end, label, {key: good[key] for key in good if key != name}, name
            )
            yield StoreObject(f"{name} is null", end, label, {**good, name: None}, name)
        yield StoreObject("unknown member", end, label, {**good, "colour": "red"}, "colour")
        yield StoreObject("no object", end, label, "data", "")
        if "credentialsRef" in good:
            foreign = {"name": "key", "namespace": "theirs"}
            yield StoreObject(
                "Secret elsewhere",
                end,
                label,
                {**good, "credentialsRef": foreign},
                "credentialsRef.namespace",
            )
            yield StoreObject(
                "Secret without a name",
                end,
                label,
                {**good, "credentialsRef": {}},
                "credentialsRef.name",
            )
            yield StoreObject(
                "Secret by a text", end, label, {**good, "credentialsRef": "key"}, "credentialsRef"
            )
            yield StoreObject(
                "no name",
                end,
                label,
                {**good, "credentialsRef": {"name": "A b"}},
                "credentialsRef.name",
            )


def _of_other_types() -> Iterator[StoreObject]:
    for (end, label), good in COMPLETE.items():
        for name in _TEXTS[label]:
            yield StoreObject(f"{name} is a number", end, label, {**good, name: 5}, name)
            yield StoreObject(f"{name} is a list", end, label, {**good, name: ["a"]}, name)


def _of_the_other_end() -> Iterator[StoreObject]:
    for (end, label), good in COMPLETE.items():
        for name, value in (OUTPUT_ONLY if end == "input" else INPUT_ONLY).get(label, {}).items():
            yield StoreObject(f"{name} of the other end", end, label, {**good, name: value}, name)
    for label in ("http", "run"):
        yield StoreObject("only for the input", "output", label, COMPLETE["input", label], "")


def _forms() -> Iterator[StoreObject]:
    for ends, labels, member, accepted, refused in _MEMBERS:
        for end in ends:
            for label in labels:
                good = COMPLETE[end, label]
                for value in accepted:
                    yield StoreObject(
                        f"{member} {value!r:.60}", end, label, _with(good, member, value)
                    )
                for given in refused:
                    value, field = given if isinstance(given, tuple) else (given, member)
                    yield StoreObject(
                        f"{member} {value!r:.60}", end, label, _with(good, member, value), field
                    )
    for title, end, label, more, field in _TOGETHER:
        yield StoreObject(title, end, label, {**COMPLETE[end, label], **more}, field)


def _with(good: Json, member: str, value: object) -> Json:
    name, _, below = member.partition(".")
    return {**good, name: _with(good.get(name, {}), below, value) if below else value}


_BOTH: Final = ("input", "output")
_IN: Final = ("input",)
_OUT: Final = ("output",)
_SERVER: Final = (
    "minio:9000",
    "ftp://minio:9000",
    "http://",
    "http://minio/s3/x",
    "http://minio?x=1",
    "http://minio#a",
    "http://user:c4nary@minio:9000",
    "http://minio:0",
    "http://minio:99999",
    "http://mi nio:9000",
)

_MEMBERS: Final[
    tuple[tuple[tuple[str, ...], tuple[str, ...], str, tuple[Any, ...], tuple[Any, ...]], ...]
] = (
    (
        _IN,
        ("file",),
        "path",
        ("a", "a/b", "./a", "a/*.csv", "in/dt=*/", "a b"),
        ("", "/a", "../a", "a/../b", "a\0b"),
    ),
    (_OUT, ("file",), "path", ("a", "a/b", "./a"), ("", "/a", "../a", "a/..", "a\0b")),
    (
        _IN,
        _BUCKETS,
        "path",
        ("a", "a/b/", "a/*.csv", "ä/b"),
        ("", "/", "/a", "./a", "a//b", "a/../b", "a/.", "a\0b", "a\nb"),
    ),
    (_OUT, _BUCKETS, "path", ("a", "a/b/"), ("/a", "./a", "a//", "..", "a\0b")),
    (_BOTH, ("file",), "claimName", ("my.claim", "a"), ("", "My_Claim", "-a", "a/b")),
    (
        _BOTH,
        ("s3",),
        "bucket",
        ("a.b-c", "a1b"),
        ("My_Bucket", "-ab", "ab-", "ab", "a" * 64, "a/b", "ab\n"),
    ),
    (_IN, ("gcs",), "bucket", ("a_b", "a.b-c"), ("A-b", "-ab", "ab-", "ab", "a" * 223)),
    (_IN, ("azure",), "account", ("a1b",), ("my-account", "Data", "ab", "a" * 25)),
    (
        _IN,
        ("azure",),
        "container",
        ("$root", "$web", "a-b"),
        ("My", "a--b", "-ab", "ab-", "a_b", "ab", "a" * 64),
    ),
    (
        _IN,
        ("s3", "gcs"),
        "endpoint",
        ("", "http://minio:9000", "https://minio/"),
        ("http://minio/s3", *_SERVER),
    ),
    (
        _OUT,
        ("s3",),
        "endpoint",
        ("http://minio.storage:9000",),
        ("http://minio/s3", "http://minio?x=1", "minio:9000"),
    ),
    (
        _IN,
        ("azure",),
        "endpoint",
        ("", "http://azurite:10000/data", "https://data.blob.example"),
        _SERVER,
    ),
    (_IN, ("s3",), "region", ("eu-central-1", "auto"), ("", "eu central", "a/b", "a" * 65)),
    (_OUT, ("s3",), "kmsKeyId", ("alias/a", "arn:aws:kms:eu-central-1:1:key/a"), ("",)),
    (_IN, ("s3",), "requesterPays", (True, False), ("yes", "true", 1)),
    (
        _IN,
        _FILES,
        "format",
        ("csv", "parquet", "arrow", "json", "orc", "openai", "files"),
        ("", "xml", "CSV"),
    ),
    (
        _OUT,
        _FILES,
        "format",
        ("csv", "parquet", "arrow", "openai"),
        ("", "xml", "json", "orc", "files"),
    ),
    (_IN, ("http",), "format", ("csv", "json"), ("", "xml")),
    (_IN, ("file", "s3"), "missingColumns", ("Fail", "Null"), ("Skip", "", True)),
    (_IN, ("file", "s3"), "allowEmpty", (True,), ("true", 1)),
    (_OUT, ("file", "s3"), "flatten", (True,), ("true", 0)),
    (
        _IN,
        ("file", "s3"),
        "partitions",
        ({"dt": "date32"},),
        (({"dt": ""}, "partitions.dt"), ({"dt": 5}, "partitions.dt"), []),
    ),
    (
        _OUT,
        ("file", "s3"),
        "layout.partSize",
        (1, 4096, "1Gi", "128Mi", "5k"),
        (0, -1, "1.5Gi", "big", "0", "1gi", "1 Gi"),
    ),
    (_OUT, ("file", "s3"), "layout.single", (True, False), ("true",)),
    (_OUT, ("file", "s3"), "layout.partitions", ("None", "Input"), ("Output", "")),
    (_OUT, ("file", "s3"), "layout.colour", (), ("red",)),
    (_OUT, ("file",), "layout", ({},), ([], "single")),
    (
        _IN,
        ("http",),
        "url",
        ("", "http://host:8080/a.csv", "https://host/a?signature=x", "https://host/%C3%A4"),
        (
            "host/a",
            "ftp://host/a",
            "http://host:0/",
            "http://host:99999/",
            "http://user:c4nary@host/",
            "https://host/ä",
            "https://host/a b",
            "http://",
            "http://host/\n",
        ),
    ),
    (
        _IN,
        ("sql",),
        "query",
        ("select 1;", "select $1"),
        ("", " ; ", "select '\0'", 5, "x" * 65_537),
    ),
    (
        _IN,
        ("sql",),
        "key",
        ("id", "", ["id"], ["a", "b"], None),
        (
            [],
            [f"c{at}" for at in range(9)],
            5,
            {"a": "b"},
            "a" * 64,
            ([""], "key.0"),
            (["a", 5], "key.1"),
            (["a", "a" * 64], "key.1"),
            ["a", "a"],
        ),
    ),
    (
        _OUT,
        ("sql",),
        "table",
        ("t", "a.b", "_T1"),
        ("", "a.b.c", "1a", "t; drop table t", "a b", "ä", "a" * 64, "a.", 5),
    ),
    (_IN, ("run",), "name", (), ("", "Nightly Run", "a/b")),
    (_BOTH, ("krateo",), "api.verb", ("GET", "post"), ("FETCH", "")),
    (_BOTH, ("krateo",), "api.headers", (["A: b"],), ("A: b",)),
    (
        _IN,
        ("krateo",),
        "api.headers",
        (),
        ((["nothing"], "api.headers.0"), (["Host: a"], "api.headers.0")),
    ),
    (_IN, ("krateo",), "api.payload", ('{"a": 1}', ""), ("[1]", "{", {"a": 1})),
    (_IN, ("krateo",), "api.colour", (), ("red",)),
    (_IN, ("krateo",), "api.endpointRef", (), (({}, "api.endpointRef.name"), "handler")),
)
"""Ends, labels, a member, values that are accepted and that are refused, perhaps with another field
that is blamed."""

_CSV: Final = {"format": "csv"}
_TOGETHER: Final[tuple[tuple[str, str, str, Json, str | None], ...]] = (
    *(
        (f"csv {options!r:.60}", "input", label, {**_CSV, "csv": options}, field)
        for label in ("file", "s3", "http")
        for options, field in (
            ({}, None),
            (
                {
                    "delimiter": ";",
                    "quote": "'",
                    "escape": "\\",
                    "escapeUnquoted": True,
                    "skipInitialSpace": True,
                },
                None,
            ),
            ({"delimiter": "\t"}, None),
            ({"quote": "", "escape": ""}, None),
            (
                {
                    "header": False,
                    "columns": ["a", "b"],
                    "nullValues": ["NA", ""],
                    "encoding": "windows-1252",
                },
                None,
            ),
            ({"delimiter": ""}, "csv.delimiter"),
            ({"delimiter": ";;"}, "csv.delimiter"),
            ({"delimiter": "\n"}, "csv.delimiter"),
            ({"delimiter": "\x01", "quote": "", "columns": ["a"]}, None),
            ({"delimiter": "\x7f"}, "csv.delimiter"),
            ({"quote": "«"}, "csv.quote"),
            ({"delimiter": "'", "quote": "'"}, "csv"),
            ({"escape": '"'}, "csv"),
            ({"encoding": "utf-16"}, "csv.encoding"),
            ({"header": "true"}, "csv.header"),
            ({"columns": ["a", "b", "a"]}, "csv.columns"),
            ({"columns": [""]}, "csv.columns.0"),
            ({"columns": "a"}, "csv.columns"),
            ({"nullValues": [5]}, "csv.nullValues.0"),
            ({"separator": ";"}, "csv.separator"),
        )
    ),
    *(
        ("csv without the format", "input", label, {"csv": {}}, "csv")
        for label in ("file", "s3", "http")
    ),
    *(
        ("csv of another format", "input", label, {"format": "parquet", "csv": {}}, "csv")
        for label in ("file", "s3")
    ),
    ("csv that is no object", "input", "file", {**_CSV, "csv": ";"}, "csv"),
    (
        "key and identity",
        "input",
        "gcs",
        {"workloadIdentity": {"audience": AUDIENCE}},
        "workloadIdentity",
    ),
    (
        "identity",
        "input",
        "gcs",
        {
            "credentialsRef": None,
            "workloadIdentity": {"audience": AUDIENCE, "serviceAccount": "a@b.iam.example"},
        },
        None,
    ),
    *(
        (
            "identity",
            "input",
            "gcs",
            {"credentialsRef": None, "workloadIdentity": value},
            f"workloadIdentity{field}",
        )
        for value, field in (
            ({"audience": "https://kubernetes"}, ".audience"),
            ({}, ".audience"),
            ({"audience": AUDIENCE, "serviceAccount": "nobody"}, ".serviceAccount"),
            ({"audience": AUDIENCE, "colour": "red"}, ".colour"),
            ("kubernetes", ""),
        )
    ),
    (
        "no credentials",
        "output",
        "s3",
        {"credentialsRef": None, "endpoint": "http://127.0.0.1:9"},
        None,
    ),
    ("neither url nor Secret", "input", "http", {"url": None, "credentialsRef": None}, "url"),
    ("a Secret with the url", "input", "http", {"url": None}, None),
    ("no query", "input", "sql", {"query": None}, "query"),
    ("no table", "output", "sql", {"table": None}, "table"),
    ("values", "input", "sql", {"values": ["a"]}, "values"),
    ("a schedule", "input", "run", {"name": None, "schedule": "nightly"}, None),
    ("name and schedule", "input", "run", {"schedule": "nightly"}, "name"),
    ("neither name nor schedule", "input", "run", {"name": None}, "name"),
    *(
        (
            "one file in several folders",
            "output",
            label,
            {"layout": {"single": True, "partitions": "Input"}},
            "layout.single",
        )
        for label in ("file", "s3")
    ),
    *(
        (
            f"{form} with {compression}",
            "output",
            label,
            {"format": form, "layout": {"compression": compression}},
            field,
        )
        for label in ("file", "s3")
        for form, compression, field in (
            *(("parquet", name, None) for name in ("zstd", "snappy", "gzip", "lz4", "none")),
            *(("arrow", name, None) for name in ("zstd", "lz4", "none")),
            ("arrow", "snappy", "layout.compression"),
            ("parquet", "brotli", "layout.compression"),
            ("jsonl", "gzip", "layout.compression"),
            ("csv", "none", "layout.compression"),
        )
    ),
    *(
        (f"{form} with types", "input", "file", {"format": form, "types": {"a": "double"}}, field)
        for form, field in (("parquet", None), ("orc", None), ("jsonl", "types"), ("csv", "types"))
    ),
    *(
        (
            f"{form} with null columns",
            "input",
            "file",
            {"format": form, "missingColumns": "Null"},
            field,
        )
        for form, field in (
            ("parquet", None),
            ("jsonl", None),
            ("json", None),
            ("csv", "missingColumns"),
        )
    ),
    *(
        (
            f"the type {name}",
            end,
            label,
            {**more, member: {"a": name}},
            f"{member}.a" if is_wrong else None,
        )
        for end, label, member, more in (
            ("input", "file", "types", {"format": "parquet"}),
            ("input", "s3", "partitions", {}),
            ("output", "sql", "types", {}),
        )
        for name, is_wrong in (
            ("decimal(20, 6)", False),
            ("struct<a: timestamp[us, UTC], b: list<float>>", False),
            ("float[384]", False),
            ("integer", True),
            ("decimal(77, 0)", True),
            ("time32[ns]", True),
            ("list<int8", True),
        )
    ),
    ("types that are a list", "output", "s3", {"types": ["double"]}, "types"),
    ("types of a number", "output", "sql", {"types": {"a": 5}}, "types.a"),
    ("types", "output", "sql", {"types": {"prediction": "double"}, "flatten": True}, None),
    ("flatten by a text", "output", "sql", {"flatten": "true"}, "flatten"),
)
"""A title, end, label, members beside those of the complete object, and the field that is
blamed."""
