"""Finds invalid values in resources that the API server has accepted. Pure.

The CRD's schema rejects most mistakes immediately. It cannot detect an unknown key in a free-form storage object, a schedule
that never fires, a size in bytes, or a field that the built-in runner requires; and an object may be older than a rule. Every
problem names the field, its value and what is allowed.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from difflib import get_close_matches
from itertools import chain, islice
from typing import Any, Final, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from inferrun.contract import MAX_BYTES, RESULT_MEMBERS
from inferrun.error_threshold import ErrorThreshold
from inferrun.http_headers import header_fault, is_credential, name_fault, split_header
from inferrun.resources import InferenceConfig, InferenceRun
from inferrun.resources.config import (
    MODEL_VERSIONS,
    QUANTITY,
    InferenceConfigSpec,
    JoinSource,
    ResourceRequirements,
)
from inferrun.resources.cron import InvalidSchedule, InvalidTimeZone, check_time_zone, parse_schedule
from inferrun.resources.run import RESERVED_PARAMETERS, InferenceRunSpec
from inferrun.resources.scalars import MESSAGE_LIMIT
from inferrun.resources.sharding import shard_obstacle
from inferrun.resources.storage import (
    HTTP_VERBS,
    KNOWN_LABELS,
    KRATEO_LABEL,
    SCHEMA_LABELS,
    FileStorage,
    KrateoApi,
    KrateoStorage,
)
from inferrun.resources.store_rules import End, store_faults
from inferrun.text import one_line, public_url

API_SERVER_AUDIENCE: Final = re.compile(r"(https?://)?kubernetes(\.default(\.svc(\..*)?)?)?(:443)?/?$")
"""Audiences that API servers accept by default: the names of their Service."""

OWN_RUNNER_VERSIONS: Final = ("v1", "v2")
GRPC: Final = "grpc-v2"
TENSOR_PROTOCOLS: Final = ("v2", GRPC)
OWN_RUNNER_PROTOCOLS: Final = ("v1", "v2", GRPC, "openai")
MODEL_FIELDS: Final = {"model_name", "model_url", "model_version", "model_input_name"}
"""The fields of spec.kserve that may be placed in spec, too."""
STANDARD_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
SHOWN_VALUE_LIMIT: Final = 120

MAX_PROBLEMS: Final = 5
"""Problems that a message names. The search for problems ends with the next one."""

_SHOWN_MEMBERS: Final = 20
_CONFIDENTIAL: Final = frozenset({"headers", "payload", "headersFrom"})
"""Fields whose values may contain credentials: their problems are reported without the value."""

_UNITS: Final = {
    **{f"{letter}i": Decimal(1024**power) for power, letter in enumerate("KMGTPE", start=1)},
    **{letter: Decimal(1000**power) for power, letter in enumerate("kMGTPE", start=1)},
    "m": Decimal("0.001"),
    "u": Decimal("0.000001"),
    "n": Decimal("0.000000001"),
}

_REQUIREMENTS: Final = {
    "missing": "it is required",
    "string_type": "must be a string",
    "tuple_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
}
"""Requirements in the terms of a manifest, for pydantic's error types that use the terms of Python."""


HIDDEN: Final = "(not shown)"
"""In place of a value that may be confidential."""

FIELD_LIMIT: Final = 200


@dataclass(frozen=True, kw_only=True)
class Problem:
    """An invalid field: its path of JSON names, its value as text, and what is allowed."""

    field: str
    value: str | None
    allowed: str

    def __str__(self) -> str:
        return f"{self.field} {self._found}; {self.allowed}"

    @property
    def _found(self) -> str:
        if self.value == HIDDEN:
            return "is invalid"
        return "is not set" if self.value is None else f'is "{self.value}"'


def describe(problems: Iterable[Problem]) -> str:
    """The first problems on one line, for a status message."""
    first = list(islice(problems, MAX_PROBLEMS + 1))
    more = "; and more problems" if len(first) > MAX_PROBLEMS else ""
    return one_line("; and ".join(map(str, first[:MAX_PROBLEMS])), limit=MESSAGE_LIMIT - len(more)) + more


def parse_problems(error: ValidationError) -> tuple[Problem, ...]:
    """The first problems because of which a resource could not be parsed."""
    entries = error.errors(include_url=False, include_context=False)
    return tuple(
        Problem(
            field=one_line(".".join(str(part) for part in entry["loc"]), limit=FIELD_LIMIT),
            value=_shown_input(entry),
            allowed=_REQUIREMENTS.get(entry["type"]) or f"allowed: {entry['msg'][:1].lower()}{entry['msg'][1:]}",
        )
        for entry in entries[: MAX_PROBLEMS + 1]
    )


def _shown_input(entry: ErrorDetails) -> str | None:
    if entry["type"] == "missing":
        return None
    return HIDDEN if _CONFIDENTIAL.intersection(map(str, entry["loc"])) else shown(entry["input"])


def shown(value: object) -> str:
    """`value` as text, truncated. Of a URL, the part that is public."""
    if isinstance(value, str):
        text = (public_url(value) if "://" in value else value)[: 8 * SHOWN_VALUE_LIMIT]
    elif isinstance(value, dict | list):
        text = _outline(value)
    else:
        text = json.dumps(value, default=str)
    return one_line(text, limit=SHOWN_VALUE_LIMIT)


def _outline(value: dict[str, object] | list[object]) -> str:
    """An object or list as text without its values, which may be anything; the keys of an object say which one it is."""
    if isinstance(value, list):
        return f"a list of {len(value)}"
    keys = ", ".join(islice(value, _SHOWN_MEMBERS))
    return f"{{{keys}}}"


def run_problems(run: InferenceRun, *, min_schedule_interval_seconds: int = 60) -> tuple[Problem, ...]:
    """The first problems of a run or a schedule, which must not fire more often than every so many seconds."""
    problems = chain(
        _schedule_problems(run.spec, min_schedule_interval_seconds),
        _parameter_problems(run.spec.parameters or {}),
        _threshold_problems(run.spec.error_threshold),
        _single_run_problems(run.spec),
    )
    return tuple(islice(problems, MAX_PROBLEMS + 1))


def config_problems(config: InferenceConfig) -> tuple[Problem, ...]:
    """The first problems of a config, whatever the operator's settings are."""
    spec = config.spec
    problems = chain(
        _placement_problems(spec),
        _model_problems(spec),
        _storage_problems(spec),
        _threshold_problems(spec.error_threshold),
        _shard_problems(spec),
        _column_problems(spec),
        _resource_problems(spec),
        _requests_beyond_limits(spec.resources or ResourceRequirements()),
    )
    return tuple(islice(problems, MAX_PROBLEMS + 1))


def config_warnings(config: InferenceConfig) -> tuple[str, ...]:
    """What is valid and should be changed: headers with credentials, which everyone who may read the config can see."""
    storage = config.spec.storage
    found = []
    for end, labels in (("input", storage.input), ("output", storage.output)):
        for index, header in enumerate(_headers_of((labels or {}).get(KRATEO_LABEL))):
            if isinstance(header, str) and is_credential(split_header(header)[0]):
                name = shown(split_header(header)[0])
                found.append(
                    f"spec.storage.{end}.krateo.api.headers.{index} ({name}) can be seen by everyone who may read this "
                    "config; use headersFrom with a Secret"
                )
    if len(found) > MAX_PROBLEMS:
        more = len(found) - MAX_PROBLEMS
        found[MAX_PROBLEMS:] = [f"{more} more headers can be seen by everyone who may read this config"]
    return tuple(found)


def _headers_of(krateo: JsonValue) -> list[JsonValue]:
    api = krateo.get("api") if isinstance(krateo, dict) else None
    headers = api.get("headers") if isinstance(api, dict) else None
    return headers if isinstance(headers, list) else []


def _schedule_problems(spec: InferenceRunSpec, min_interval: int) -> Iterator[Problem]:
    if spec.schedule is not None:
        try:
            seconds = parse_schedule(spec.schedule).shortest_interval_seconds
            if seconds < min_interval:
                raise InvalidSchedule(
                    f"it fires every {seconds} s; at least {min_interval} s are required in this installation "
                    "(setting minScheduleIntervalSeconds)"
                )
        except InvalidSchedule as wrong:
            yield Problem(field="spec.schedule", value=shown(spec.schedule), allowed=str(wrong))
    if spec.time_zone is not None:
        try:
            check_time_zone(spec.time_zone)
        except InvalidTimeZone as wrong:
            yield Problem(field="spec.timeZone", value=shown(spec.time_zone), allowed=str(wrong))


def _single_run_problems(spec: InferenceRunSpec) -> Iterator[Problem]:
    if spec.schedule is None:
        return
    if spec.dry_run:
        yield Problem(field="spec.dryRun", value="true", allowed="not allowed with spec.schedule; use a run of its own")
    if spec.retry_of:
        yield Problem(field="spec.retryOf", value=shown(spec.retry_of), allowed="not allowed with spec.schedule")


def _threshold_problems(threshold: int | str | None) -> Iterator[Problem]:
    if threshold is None:
        return
    try:
        ErrorThreshold.parse(threshold)
    except ValueError as wrong:
        yield Problem(field="spec.errorThreshold", value=shown(threshold), allowed=str(wrong))


def _shard_problems(spec: InferenceConfigSpec) -> Iterator[Problem]:
    """Another image may be that of the built-in runner; whether it is, is found out when a run is launched."""
    if spec.image is not None:
        return
    obstacle = shard_obstacle(
        spec.shards or 1,
        image=None,
        input_labels=spec.storage.input or (),
        output_labels=spec.storage.output or (),
        canary_records=spec.canary_records,
    )
    if obstacle:
        yield Problem(field="spec.shards", value=shown(spec.shards), allowed=obstacle)


def _column_problems(spec: InferenceConfigSpec) -> Iterator[Problem]:
    copied = spec.pass_through_columns or ()
    if spec.join_source is JoinSource.INPUT and copied:
        yield Problem(
            field="spec.joinSource",
            value="Input",
            allowed="copies all columns; remove spec.passThroughColumns, or set None",
        )
    for at, name in enumerate(copied):
        field = f"spec.passThroughColumns.{at}"
        if name in RESULT_MEMBERS:
            yield Problem(
                field=field,
                value=shown(name),
                allowed=f"not allowed: results have a member of that name; their members are {', '.join(RESULT_MEMBERS)}",
            )
        elif name in copied[:at]:
            yield Problem(field=field, value=shown(name), allowed="but it is named twice")
    if spec.image is None:
        yield from _column_support_problems(spec)


def _column_support_problems(spec: InferenceConfigSpec) -> Iterator[Problem]:
    """What the built-in runner has no columns for: other protocols than V2, and data handlers."""
    protocol = spec.model.protocol_version or spec.model.model_version
    has_tensors = spec.tensors is not None and bool(spec.tensors.inputs or spec.tensors.outputs)
    if has_tensors and protocol and protocol not in TENSOR_PROTOCOLS:
        yield Problem(
            field="spec.tensors",
            value=f"set with the protocol {shown(protocol)}",
            allowed=f"the built-in runner sends named tensors with {' and '.join(TENSOR_PROTOCOLS)}",
        )
    copies = spec.join_source is JoinSource.INPUT or bool(spec.pass_through_columns)
    names_columns = copies or (spec.tensors is not None and bool(spec.tensors.inputs))
    for end, used, labels in (
        ("input", names_columns, spec.storage.input),
        ("output", copies, spec.storage.output),
    ):
        if used and KRATEO_LABEL in (labels or {}):
            yield Problem(
                field=f"spec.storage.{end}.{KRATEO_LABEL}",
                value="used with columns",
                allowed="rows of a data handler have no named columns; remove tensors.inputs, joinSource and passThroughColumns",
            )


def _parameter_problems(parameters: Mapping[str, str]) -> Iterator[Problem]:
    reserved = ", ".join(RESERVED_PARAMETERS)
    for name in sorted(set(parameters) & set(RESERVED_PARAMETERS)):
        yield Problem(
            field=f"spec.parameters.{name}",
            value=shown(parameters[name]),
            allowed=f"the names {reserved} are reserved",
        )
    yield from _size_problems("spec.parameters", dict(parameters))


def _size_problems(field: str, value: object) -> Iterator[Problem]:
    size = len(json.dumps(value, ensure_ascii=False, default=str).encode())
    if size > MAX_BYTES:
        yield Problem(field=field, value=f"{size} bytes of JSON", allowed=f"at most {MAX_BYTES} bytes are allowed")


def _placement_problems(spec: InferenceConfigSpec) -> Iterator[Problem]:
    if spec.kserve is None:
        return
    flat = spec.model_dump(by_alias=True, include=MODEL_FIELDS)
    nested = spec.kserve.model_dump(by_alias=True)
    for name, value in flat.items():
        other = nested[name]
        if value and other and value != other:
            public = public_url if name == "modelUrl" else str
            yield Problem(
                field=f"spec.{name}",
                value=shown(public(value)),
                allowed=f'but spec.kserve.{name} is "{shown(public(other))}"; set only one of them, or both to the same value',
            )


def _model_problems(spec: InferenceConfigSpec) -> Iterator[Problem]:
    model, own_runner = spec.model, spec.image is None
    if own_runner and model.protocol_version and model.protocol_version not in OWN_RUNNER_PROTOCOLS:
        yield Problem(
            field="spec.kserve.protocolVersion",
            value=shown(model.protocol_version),
            allowed=(
                f"the built-in runner supports {', '.join(OWN_RUNNER_PROTOCOLS[:-1])} and {OWN_RUNNER_PROTOCOLS[-1]}"
                f"{did_you_mean(model.protocol_version, OWN_RUNNER_PROTOCOLS)}; any other protocol requires an image in "
                "spec.image that provides it"
            ),
        )
    versions = OWN_RUNNER_VERSIONS if own_runner and not model.protocol_version else MODEL_VERSIONS
    if model.model_version and model.model_version not in versions:
        whose = " with the built-in runner" if own_runner else ""
        yield Problem(
            field="spec.kserve.modelVersion",
            value=shown(model.model_version),
            allowed=f"must be {' or '.join(versions)}{whose}",
        )
    if model.token_audience and not spec.service_account_name:
        yield Problem(
            field="spec.kserve.tokenAudience",
            value=shown(model.token_audience),
            allowed="but serviceAccountName is not set, whose token it would be",
        )
    if model.token_audience and API_SERVER_AUDIENCE.match(model.token_audience):
        yield Problem(
            field="spec.kserve.tokenAudience",
            value=shown(model.token_audience),
            allowed="is an audience of the API server: with the token, the model server could act as the service account",
        )
    if model.service_ref is not None and model.model_url:
        yield Problem(
            field="spec.kserve.serviceRef",
            value=shown(model.service_ref.name),
            allowed="but modelUrl is set, too; set only one of them",
        )
    elif own_runner and model.service_ref is not None and model.protocol_version == GRPC:
        yield Problem(
            field="spec.kserve.protocolVersion",
            value=shown(GRPC),
            allowed="grpc-v2 requires modelUrl with the server's host and gRPC port instead of serviceRef",
        )
    elif own_runner and not model.model_url and model.service_ref is None:
        yield Problem(
            field="spec.kserve.modelUrl",
            value=None,
            allowed=(
                "the built-in runner requires it, for example sklearn-iris-predictor.models/v2/models/iris/infer, or "
                "spec.kserve.serviceRef with the name of an object of KServe"
            ),
        )
    elif own_runner and model.model_url and model.protocol_version == GRPC:
        if not is_grpc_url(model.model_url):
            yield Problem(
                field="spec.kserve.modelUrl",
                value=shown(public_url(model.model_url)),
                allowed="must be host and port of the server, such as iris-predictor.models:8081, or grpcs://… for TLS",
            )
    elif own_runner and model.model_url and not is_http_url(model.model_url):
        yield Problem(
            field="spec.kserve.modelUrl",
            value=shown(public_url(model.model_url)),
            allowed="must be an http or https URL; the default scheme is http",
        )


def is_grpc_url(url: str) -> bool:
    """Whether `url` is host and port of a gRPC server; the default scheme is grpc."""
    try:
        parts = urlsplit(url if "://" in url else f"grpc://{url}")
        is_whole = bool(parts.hostname) and bool(parts.port) and not parts.path.strip("/") and " " not in url
        return parts.scheme in {"grpc", "grpcs"} and is_whole
    except ValueError:
        return False


def is_http_url(url: str) -> bool:
    """Whether `url` is a valid http or https URL; the default scheme is http."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0 and " " not in url
    except ValueError:
        return False


def _storage_problems(spec: InferenceConfigSpec) -> Iterator[Problem]:
    ends: tuple[tuple[End, Mapping[str, JsonValue] | None], ...] = (
        ("input", spec.storage.input),
        ("output", spec.storage.output),
    )
    for name, end in ends:
        yield from _end_problems(end or {}, name=name, own_runner=spec.image is None)
    yield from _size_problems("spec.storage", spec.storage.model_dump(mode="json"))


def _end_problems(end: Mapping[str, JsonValue], *, name: End, own_runner: bool) -> Iterator[Problem]:
    path = f"spec.storage.{name}"
    if own_runner:
        yield from _own_runner_label_problems(end, path=path)
    models = KNOWN_LABELS if own_runner else SCHEMA_LABELS
    for label, value in end.items():
        if label in models:
            yield from _known_storage_problems(value, model=models[label], end=name, path=f"{path}.{label}")
        elif not isinstance(value, dict):
            yield Problem(field=f"{path}.{label}", value=shown(value), allowed="must be an object")


def _own_runner_label_problems(end: Mapping[str, JsonValue], *, path: str) -> Iterator[Problem]:
    known = ", ".join(KNOWN_LABELS)
    if not end:
        yield Problem(field=path, value=None, allowed=f"the built-in runner requires one of the labels {known}")
    for label in end:
        if label not in KNOWN_LABELS:
            yield Problem(
                field=f"{path}.{label}",
                value=shown(end[label]),
                allowed=(
                    f"the built-in runner supports {known}{did_you_mean(label, KNOWN_LABELS)}; "
                    "any other label requires a custom image in spec.image"
                ),
            )
    if len(end) > 1:
        yield Problem(field=path, value=", ".join(end), allowed="the built-in runner supports only one label")


def _known_storage_problems(value: JsonValue, *, model: type[BaseModel], end: End, path: str) -> Iterator[Problem]:
    yield from _unknown_keys(value, model=model, path=path)
    try:
        storage = model.model_validate(value)
    except ValidationError as error:
        for problem in parse_problems(error):
            below = f"{path}.{problem.field}" if problem.field else path
            yield Problem(field=below, value=problem.value, allowed=problem.allowed)
        return
    if isinstance(storage, KrateoStorage):
        yield from _header_problems(storage.api, path=f"{path}.api")
    yield from _meaning_problems(storage.model_dump(by_alias=True), path=path)
    for fault in store_faults(storage, end=end):
        field = f"{path}.{fault.field}" if fault.field else path
        yield Problem(field=field, value=None if fault.value is None else shown(fault.value), allowed=fault.allowed)


def _unknown_keys(value: JsonValue, *, model: type[BaseModel], path: str) -> Iterator[Problem]:
    if not isinstance(value, dict):
        return
    below = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
    for key, inner in value.items():
        if key not in below:
            yield Problem(
                field=one_line(f"{path}.{key}", limit=FIELD_LIMIT),
                value=shown(inner) if issubclass(model, FileStorage) else HIDDEN,  # it may be a misplaced credential
                allowed=f"unknown key{did_you_mean(key, below)}; allowed are {', '.join(below)}",
            )
            continue
        kind = _model_in(below[key])
        if kind is None:
            continue
        if not isinstance(inner, list):
            yield from _unknown_keys(inner, model=kind, path=f"{path}.{key}")
            continue
        for at, one in enumerate(inner):
            yield from _unknown_keys(one, model=kind, path=f"{path}.{key}.{at}")


def _model_in(kind: Any) -> type[BaseModel] | None:  # Any: the annotation of a field
    """The model of an object, or of the items of a list."""
    if isinstance(kind, type) and get_origin(kind) is None:
        return kind if issubclass(kind, BaseModel) else None
    return next(filter(None, map(_model_in, get_args(kind))), None)


def _header_problems(api: KrateoApi, *, path: str) -> Iterator[Problem]:
    for index, header in enumerate(api.headers or ()):
        if fault := header_fault(header):
            yield Problem(field=f"{path}.headers.{index}", value=HIDDEN, allowed=fault)
    for index, source in enumerate(api.headers_from or ()):
        if fault := name_fault(source.name):
            yield Problem(field=f"{path}.headersFrom.{index}.name", value=shown(source.name), allowed=fault)


def _meaning_problems(storage: Mapping[str, object], *, path: str) -> Iterator[Problem]:
    """Values of the right type that are still invalid: a path outside the claim, an unknown verb."""
    file_path = storage.get("path")
    if isinstance(file_path, str) and leaves_its_root(file_path):
        yield Problem(
            field=f"{path}.path",
            value=shown(file_path),
            allowed='must be a path relative to the root of the claim, without ".."',
        )
    api = storage.get("api")
    verb = api.get("verb") if isinstance(api, dict) else None
    if isinstance(verb, str) and verb.upper() not in HTTP_VERBS:
        yield Problem(field=f"{path}.api.verb", value=shown(verb), allowed=f"must be one of {', '.join(HTTP_VERBS)}")


def leaves_its_root(path: str) -> bool:
    """Whether `path` is absolute, contains `..`, or contains a character that is not allowed in file names."""
    return path.startswith("/") or "\0" in path or ".." in path.split("/")


def _resource_problems(spec: InferenceConfigSpec) -> Iterator[Problem]:
    for name in ("requests", "limits"):
        quantities = getattr(spec.resources, name, None) or {}
        for resource, value in quantities.items():
            if "/" not in resource and resource not in STANDARD_RESOURCES and not resource.startswith("hugepages-"):
                yield Problem(
                    field=f"spec.resources.{name}.{resource}",
                    value=shown(value),
                    allowed=(
                        f"unknown resource{did_you_mean(resource, STANDARD_RESOURCES)}; allowed are "
                        f"{', '.join(STANDARD_RESOURCES)}, hugepages-SIZE and names such as nvidia.com/gpu"
                    ),
                )
            if not re.fullmatch(QUANTITY, str(value)):
                yield Problem(
                    field=f"spec.resources.{name}.{resource}",
                    value=shown(value),
                    allowed="must be a quantity such as 2, 500m or 256Mi; an exponent has at most two digits",
                )


def _requests_beyond_limits(resources: ResourceRequirements) -> Iterator[Problem]:
    limits = resources.limits or {}
    for resource, value in (resources.requests or {}).items():
        if resource in limits and amount(value) > amount(limits[resource]):
            yield Problem(
                field=f"spec.resources.requests.{resource}",
                value=shown(value),
                allowed=f"must be at most the limit, {limits[resource]}",
            )


def amount(quantity: int | str) -> Decimal:
    """The value of a Kubernetes quantity such as 500m, 1.5 or 256Mi; 0 if it is invalid."""
    text = str(quantity)
    if not re.fullmatch(QUANTITY, text):
        return Decimal(0)
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    try:
        return Decimal(text.removesuffix(unit)) * _UNITS.get(unit, 1)
    except InvalidOperation:
        return Decimal(0)


LONGEST_WORD: Final = 64
"""Characters of a word for which a similar one is searched; the time grows with the square of the length."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suggestion of the most similar known word, or an empty string."""
    if len(word) > LONGEST_WORD:
        return ""
    by_lower = {candidate.lower(): candidate for candidate in known}
    likely = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f", did you mean {by_lower[likely[0]]}?" if likely else ""
