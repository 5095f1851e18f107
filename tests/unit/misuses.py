"""Misuses of placeholders, parameters and intervals: of each, which field is reported, and what is
said about it.

Each is a config with one string that matters, and a run of it. `where` says who reports it: the
status of the `config`, or the launch of the `run`. What the API server rejects is in
`tests.integration.crds.manifests`.
"""

from dataclasses import dataclass, replace
from dataclasses import field as member
from typing import Any, Final, Literal

Json = dict[str, Any]  # Any, here and below: manifests are free-form JSON, invalid on purpose

DAY: Final = {"start": "2026-11-21T00:00:00Z", "end": "2026-11-22T00:00:00Z"}
SECRET: Final = {"credentialsRef": {"name": "secret"}}
MODEL: Final = {"modelUrl": "iris.models/v2/models/iris/infer", "modelVersion": "v2"}


@dataclass(frozen=True, kw_only=True)
class Misuse:
    """One misuse. `field` is part of the answer, and so is `said`."""

    title: str
    where: Literal["config", "run"]
    field: str
    said: str
    input: Json = member(default_factory=lambda: {"file": {"claimName": "data", "path": "in"}})
    output: Json = member(default_factory=lambda: {"file": {"claimName": "data", "path": "out"}})
    model: Json = member(default_factory=dict)
    declared: tuple[Json, ...] = ()
    run: Json = member(default_factory=dict)

    @property
    def config_spec(self) -> Json:
        """The spec of the config."""
        declared = {"parameters": list(self.declared)} if self.declared else {}
        return {
            "kserve": {**MODEL, **self.model},
            "storage": {"input": self.input, "output": self.output},
            **declared,
        }

    def run_spec(self, config: str) -> Json:
        """The spec of a run of the config of that name."""
        return {"configRef": {"name": config}, **self.run}


def _file(path: str) -> Json:
    return {"file": {"claimName": "data", "path": path}}


def _s3(path: str, **more: object) -> Json:
    return {"s3": {"bucket": "data", "path": path, **more}}


def _http(url: str) -> Json:
    return {"http": {"url": url}}


def _query(query: str, **more: object) -> Json:
    return {"sql": {**SECRET, "query": query, **more}}


def _table(table: str) -> Json:
    return {"sql": {**SECRET, "table": table}}


def _api(**call: object) -> Json:
    return {"krateo": {"api": {"endpointRef": {"name": "handler"}, **call}}}


def _of_value(
    title: str,
    value: str,
    said: str,
    *,
    field: str = "spec.parameters.day",
    declared: tuple[Json, ...] = (),
    **end: Any,
) -> Misuse:
    """A value of the parameter day that leaves its field, which is in the storage of the config at
    that end."""
    run = {"parameters": {"day": value}}
    return replace(
        Misuse(title=title, where="run", field=field, said=said, declared=declared, run=run), **end
    )


def _of_result(title: str, value: str, said: str, field: str, **end: Any) -> Misuse:
    """A value that is valid by itself, and makes the field invalid."""
    return _of_value(title, value, said, field=f"with the values of this run: {field}", **end)


def _of_config(
    title: str, said: str, field: str, *, declared: tuple[Json, ...] = (), **end: Any
) -> Misuse:
    return replace(
        Misuse(title=title, where="config", field=field, said=said, declared=declared), **end
    )


SLASHES: Final = ({"name": "day", "allowSlashes": True},)
NO_SLASHES: Final = (
    "must not contain / or \\; the config may declare the parameter with allowSlashes: true"
)
NOT_EMPTY: Final = "must not be empty"
NO_DOTS: Final = 'must not make a part of the path empty, "." or ".."'
UNPRINTABLE: Final = "must not contain line breaks and other characters that are not printed"
IN_TABLE: Final = "must consist of letters, digits and underscores in the name of a table"
BETWEEN_QUOTES: Final = (
    '"$(params.day)" stands between quotes; remove the quotes around it, as in = $(params.day)'
)
AFTER_THE_HOST: Final = "only stand after the host"
QUOTED: Final = "remove the quotes"
IN_PATH: Final = "they are allowed in path"
IN, OUT = "spec.storage.input", "spec.storage.output"
PATH = f"{IN}.file.path"
URL = f"{IN}.http.url"
QUERY = f"{IN}.sql.query"
PAYLOAD = f"{IN}.krateo.api.payload"

OUT_OF_A_PATH: Final = (
    _of_value("a parent folder", "..", NO_DOTS, input=_file("in/$(params.day)")),
    _of_value("the same folder", ".", NO_DOTS, input=_file("in/$(params.day)/rows.jsonl")),
    _of_value("a dot that completes two", ".", NO_DOTS, input=_file("in/.$(params.day)/x")),
    _of_value("a way out and back", "../other", NO_SLASHES, input=_file("in/$(params.day)")),
    _of_value("another folder by a backslash", "a\\b", NO_SLASHES, input=_file("in/$(params.day)")),
    _of_value("nothing as a segment", "", NOT_EMPTY, input=_file("in/$(params.day)/rows.jsonl")),
    _of_value(
        "a wildcard", "*", "must not contain * or ?", input=_file("in/$(params.day)/rows.jsonl")
    ),
    _of_value("a line break", "a\nb", UNPRINTABLE, input=_file("in/$(params.day)")),
    _of_value("an escape sequence", "a\x1b[2Jb", UNPRINTABLE, input=_file("in/$(params.day)")),
    _of_value("a change of direction", "a\u202eb", UNPRINTABLE, input=_file("in/$(params.day)")),
    _of_value("a zero-width space", "a\u200bb", UNPRINTABLE, input=_file("in/$(params.day)")),
    _of_value(
        "an allowed slash at the start",
        "/etc",
        NO_DOTS,
        declared=SLASHES,
        input=_file("$(params.day)"),
    ),
    _of_value(
        "an allowed slash at the end",
        "a/",
        NO_DOTS,
        declared=SLASHES,
        input=_file("in/$(params.day)"),
    ),
    _of_value(
        "allowed slashes and a parent",
        "a/../../b",
        NO_DOTS,
        declared=SLASHES,
        input=_file("in/$(params.day)"),
    ),
    *(
        _of_value(
            f"a parent by allowed backslashes {n}", "a\\..\\b", NO_DOTS, declared=SLASHES, input=one
        )
        for n, one in enumerate(
            (_file("in/$(params.day)"), _http("https://files.example/$(params.day)"))
        )
    ),
    _of_value(
        "a parent after an encoded slash",
        "..",
        NO_DOTS,
        input=_http("https://files.example/in%2F$(params.day)"),
    ),
    _of_result(
        "a path that is too long",
        "x" * 2000,
        "at most 1024",
        f"{IN}.file.path",
        input=_file("in/$(params.day)"),
    ),
    _of_value(
        "a prefix that becomes a key",
        "a/",
        NO_DOTS,
        declared=SLASHES,
        output=_s3("out/$(params.day)"),
    ),
    _of_value("a null byte in a key", "a\0b", "NUL", output=_s3("out/$(params.day)")),
    _of_value("an output outside its folder", "..", NO_DOTS, output=_file("out/$(params.day)")),
)

OUT_OF_A_URL: Final = (
    _of_value(
        "a parent in a URL",
        "..",
        NO_DOTS,
        input=_http("https://files.example/in/$(params.day)/x.jsonl"),
    ),
    _of_value(
        "half an encoded parent",
        ".",
        NO_DOTS,
        input=_http("https://files.example/in/%2e$(params.day)/x"),
    ),
    _of_value(
        "a slash in a URL", "a/b", NO_SLASHES, input=_http("https://files.example/$(params.day)")
    ),
    _of_value(
        "a backslash in a URL",
        "\\evil",
        NO_SLASHES,
        input=_http("https://files.example/$(params.day)"),
    ),
    _of_value(
        "another host by slashes",
        "//evil",
        NO_DOTS,
        declared=SLASHES,
        input=_http("https://a.b/$(params.day)"),
    ),
    _of_value(
        "a header in a URL",
        "x\r\nHost: evil",
        UNPRINTABLE,
        input=_http("https://files.example/$(params.day)"),
    ),
    _of_value(
        "a parent in a handler's path", "..", NO_DOTS, input=_api(path="/read/$(params.day)")
    ),
    _of_value(
        "a second header",
        "a\r\nX-Admin: 1",
        UNPRINTABLE,
        input=_api(headers=["X-Day: $(params.day)"]),
    ),
    _of_config(
        "a host from a parameter",
        AFTER_THE_HOST,
        URL,
        input=_http("https://$(params.host)/rows.jsonl"),
    ),
    _of_config("a part of a host", AFTER_THE_HOST, URL, input=_http("https://a.$(params.b)/x")),
    _of_config("a user", AFTER_THE_HOST, URL, input=_http("https://$(params.u)@a/x")),
    _of_config("a scheme", AFTER_THE_HOST, URL, input=_http("$(params.s)://a/x")),
    _of_config("a whole URL", AFTER_THE_HOST, URL, input=_http("$(params.url)")),
    _of_config(
        "the name of a header",
        "only stand in the value of a header",
        f"{IN}.krateo.api.headers.0",
        input=_api(headers=["X-$(params.day): 1"]),
    ),
    _of_config(
        "a number in JSON",
        "only stand in the strings of a JSON object",
        PAYLOAD,
        input=_api(payload='{"rows": $(params.rows)}'),
    ),
    _of_config(
        "a name in JSON",
        "is the name of a member, which must not contain placeholders",
        PAYLOAD,
        input=_api(payload='{"$(params.name)": 1}'),
    ),
)

OUT_OF_A_QUERY: Final = (
    _of_config(
        "a quoted placeholder",
        BETWEEN_QUOTES,
        QUERY,
        input=_query("select a from t where day = '$(params.day)'"),
    ),
    _of_config("an escape string", QUOTED, QUERY, input=_query("select E'\\'$(run.name)' from t")),
    _of_config(
        "a dollar-quoted placeholder",
        QUOTED,
        QUERY,
        input=_query("select $q$ $(params.day) $q$ from t"),
    ),
    _of_config(
        "the name of a column",
        "cannot name a column",
        QUERY,
        input=_query('select "$(params.column)" from t'),
    ),
    _of_config(
        "the key",
        "they are allowed in query and table",
        f"{IN}.sql.key",
        input=_query("select 1", key="$(run.name)"),
    ),
    _of_value(
        "a null byte in a query",
        "a\0b",
        "NUL",
        input=_query("select a from t where b = $(params.day)"),
    ),
    _of_value(
        "a second statement in a table",
        "t; drop table x",
        IN_TABLE,
        output=_table("p_$(params.day)"),
    ),
    _of_value("a quote in a table", 'a"b', IN_TABLE, output=_table("p_$(params.day)")),
    _of_value("another schema", "secret.t", IN_TABLE, output=_table("$(params.day)")),
    _of_value("a date in a table", "2026-11-21", IN_TABLE, output=_table("p_$(params.day)")),
    _of_result(
        "a digit as the first character",
        "1",
        "a name of letters",
        f"{OUT}.sql.table",
        output=_table("$(params.day)"),
    ),
    _of_result(
        "a name that is too long",
        "x" * 80,
        "a name of letters",
        f"{OUT}.sql.table",
        output=_table("$(params.day)"),
    ),
    _of_config(
        "a time with dashes in a table",
        IN_TABLE,
        f"{OUT}.sql.table",
        output=_table("p_$(interval.start)"),
    ),
)

UNKNOWN: Final = (
    _of_config(
        "a misspelt time", "did you mean interval.start?", PATH, input=_file("$(interval.strat)")
    ),
    _of_config("another syntax", "is not known", f"{IN}.s3.path", input=_s3("in/$(DAY)/")),
    _of_config(
        "an open placeholder", "no closing parenthesis", PATH, input=_file("in/$(params.day")
    ),
    _of_config(
        "an unknown directive", "has %B in its format", PATH, input=_file("$(interval.end:%B)")
    ),
    _of_config(
        "a format of a name", "only a time of the interval", PATH, input=_file("$(run.name:%Y)")
    ),
    _of_config(
        "an undeclared parameter",
        "did you mean params.day?; allowed are $(params.day)",
        f"{OUT}.file.path",
        declared=({"name": "day"},),
        output=_file("out/$(params.dya)"),
    ),
    _of_config("a bucket", IN_PATH, f"{IN}.s3.bucket", input=_s3("in/", bucket="$(run.name)")),
    _of_config(
        "the name of a Secret",
        IN_PATH,
        f"{IN}.s3.credentialsRef.name",
        input=_s3("in/", credentialsRef={"name": "$(params.secret)"}),
    ),
)

OF_THE_MODEL: Final = tuple(
    _of_config(
        f"a placeholder in {name}",
        "must not contain placeholders; they are allowed in spec.storage",
        f"spec.kserve.{name}",
        model={name: value},
    )
    for name, value in (
        ("modelName", "iris-$(params.version)"),
        ("modelUrl", "http://iris.models/v2/models/$(params.model)/infer"),
        ("modelInputName", "$(params.input)"),
    )
)

DECLARED: Final = (
    {
        "name": "day",
        "required": True,
        "pattern": r"\d{4}-\d{2}-\d{2}",
        "description": "the day to predict",
    },
    {"name": "region", "default": "eu", "pattern": "[a-z]{2}"},
)
PARAMETERS: Final = (
    Misuse(
        title="a missing parameter",
        where="run",
        field="spec.parameters.day is not set",
        said="requires it: the day to predict",
        declared=DECLARED,
    ),
    Misuse(
        title="an unknown parameter",
        where="run",
        field="spec.parameters.regoin",
        said="no such parameter, did you mean region?; declared are day, region",
        declared=DECLARED,
        run={"parameters": {"day": "2026-11-21", "regoin": "us"}},
    ),
    *(
        Misuse(
            title=f"a value that does not match: {value!r}",
            where="run",
            field="spec.parameters.day",
            said=r"must match the pattern \d{4}-\d{2}-\d{2}",
            declared=DECLARED,
            run={"parameters": {"day": value}},
        )
        for value in (
            *(
                "2026-11-21x",
                "x2026-11-21",
                "2026-11-21\n",
                "",
                "２０２６-11-21",
                "2026-11-21/../..",
            ),
        )
    ),
    Misuse(
        title="a placeholder without its parameter",
        where="run",
        field="spec.parameters.day is not set",
        said="spec.storage.input.file.path of InferenceConfig",
        input=_file("in/$(params.day)"),
    ),
    Misuse(
        title="a placeholder without its interval",
        where="run",
        field="spec.interval is not set",
        said="contains $(interval.start:%Y)",
        input=_file("in/$(interval.start:%Y)"),
    ),
    Misuse(
        title="a run whose name is not a name of a table",
        where="run",
        field='metadata.name is "',
        said=IN_TABLE,
        output=_table("p_$(run.name)"),
    ),
    *(
        _of_config(
            f"a declaration with {title}", said, f"spec.parameters.0.{field}", declared=(one,)
        )
        for title, one, field, said in (
            ("a reserved name", {"name": "pod_uid"}, "name", "are reserved"),
            (
                "an invalid pattern",
                {"name": "a", "pattern": "[a"},
                "pattern",
                "unclosed character class",
            ),
            (
                "an escape from the whole value",
                {"name": "a", "pattern": "a)|(b"},
                "pattern",
                "unopened group",
            ),
            ("a look-ahead", {"name": "a", "pattern": "(?=a)"}, "pattern", "look-around"),
            (
                "a repeated group",
                {"name": "a", "pattern": "(a{9}){9}"},
                "pattern",
                "repeats a group",
            ),
            ("a costly pattern", {"name": "a", "pattern": "a{9999}"}, "pattern", "add up to 100"),
            (
                "a wrong default",
                {"name": "a", "pattern": "b", "default": "a"},
                "default",
                "pattern b",
            ),
            (
                "a required default",
                {"name": "a", "required": True, "default": "a"},
                "default",
                "required",
            ),
        )
    ),
    Misuse(
        title="an interval in a time zone that does not exist",
        where="run",
        field="spec.interval.timeZone",
        said="did you mean Europe/Rome?",
        run={"interval": {**DAY, "timeZone": "Europe/Roma"}},
    ),
    _of_config(
        "a default that leaves its field",
        '$(params.day) stands for "../x" there, which must not contain / or \\',
        PATH,
        declared=({"name": "day", "default": "../x"},),
        input=_file("in/$(params.day)"),
    ),
)

MISUSES: Final = (
    *OUT_OF_A_PATH,
    *OUT_OF_A_URL,
    *OUT_OF_A_QUERY,
    *UNKNOWN,
    *OF_THE_MODEL,
    *PARAMETERS,
)
