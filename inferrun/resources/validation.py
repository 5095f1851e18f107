"""Finds invalid values in resources that the API server has accepted. Pure.

The CRD's schema rejects most mistakes immediately. It cannot detect an unknown key in a free-form
storage object, a schedule that never fires, a size in bytes, or a field that the built-in runner
requires; and an object may be older than a rule. Every problem names the field, its value and what
is allowed.
"""

import json
import re
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from typing import Final
from urllib.parse import urlsplit

from pydantic import BaseModel, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from inferrun.contract import MAX_BYTES, RESULT_MEMBERS
from inferrun.error_threshold import ErrorThreshold
from inferrun.fields.problems import (
    CONFIDENTIAL,
    HIDDEN,
    MAX_PROBLEMS,
    Problem,
    invalid,
    parse_problems,
    shown,
    unknown_keys,
)
from inferrun.fields.quantities import QUANTITY, SIZE, amount
from inferrun.http_headers import is_credential, split_header
from inferrun.placeholders import has_placeholders
from inferrun.resources import InferenceConfig, InferenceRun
from inferrun.resources.config import (
    LARGEST_SIZE,
    LEAST_SIZE,
    LEAST_WINDOW,
    MODEL_FIELDS,
    MODEL_VERSIONS,
    InferenceConfigSpec,
    JoinSource,
    ResourceRequirements,
    RunnerLimits,
)
from inferrun.resources.connection import connection_problems
from inferrun.resources.cron import (
    InvalidSchedule,
    InvalidTimeZone,
    check_time_zone,
    parse_schedule,
)
from inferrun.resources.interval import interval_problems
from inferrun.resources.parameters import RESERVED_PARAMETERS, declaration_problems
from inferrun.resources.request import HTTP, MAX_BODY_BYTES, MAX_SCHEMA_BYTES, request_problems
from inferrun.resources.run import SCHEDULE_ONLY, InferenceRunSpec
from inferrun.resources.sharding import shard_obstacle
from inferrun.resources.templates import TemplateFault, UnfitValue, resolve_storage, sample_of
from inferrun.resources.tensors import TensorMapping
from inferrun.stores import FOLDER_LABELS, SCHEMA_STORES, STORES, End, KrateoStorage, Store
from inferrun.stores.dataset import FORMATS, DatasetStorage, unknown_format
from inferrun.stores.declaration import InvalidStorage, read_storage
from inferrun.suggestions import did_you_mean
from inferrun.text import public_url
from inferrun.timestamps import rfc3339

API_SERVER_AUDIENCE: Final = re.compile(
    r"(https?://)?kubernetes(\.default(\.svc(\..*)?)?)?(:443)?/?$"
)
"""Audiences that API servers accept by default: the names of their Service."""

GRPC: Final = "grpc-v2"
TENSOR_PROTOCOLS: Final = ("v1", "v2", GRPC)
REQUEST_PROTOCOLS: Final = ("openai", HTTP)
OWN_RUNNER_PROTOCOLS: Final = ("v1", "v2", GRPC, *REQUEST_PROTOCOLS)
_TYPES: Final = ("bool_type", "int_type", "string_type")
STANDARD_RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")


def run_problems(
    run: InferenceRun, *, min_schedule_interval_seconds: int = 60
) -> tuple[Problem, ...]:
    """The first problems of a run or a schedule, which must not fire more often than every so many
    seconds."""
    return tuple(islice(_run_problems(run.spec, min_schedule_interval_seconds), MAX_PROBLEMS + 1))


def unknown_fields(stored: object, *, model: type[BaseModel]) -> Iterator[Problem]:
    """Fields of a manifest's spec that do not exist. The API server drops them, and only strict
    clients report it."""
    yield from unknown_keys(_at(stored, "spec"), model=model, path="spec")


def type_problems(stored: object, *, model: type[BaseModel]) -> Iterator[Problem]:
    """Values of another type than the schema has, which the models would convert: the API server
    rejects "5" in place of 5."""
    try:
        model.model_validate_json(json.dumps(_at(stored, "spec"), default=str), strict=True)
    except ValidationError as error:
        yield from parse_problems(error, path="spec", only=_TYPES)


def config_problems(config: InferenceConfig) -> tuple[Problem, ...]:
    """The first problems of a config, whatever the operator's settings are."""
    spec = config.spec
    problems = chain(
        _model_problems(spec),
        _address_problems(spec),
        declaration_problems(spec.parameters or ()),
        _storage_problems(spec),
        _partition_problems(spec),
        _threshold_problems(spec.error_threshold),
        _shard_problems(spec),
        _column_problems(spec),
        _request_problems(spec),
        _resource_problems(spec.resources),
        _limit_problems(spec.limits),
        _node_problems(spec),
    )
    return tuple(islice(problems, MAX_PROBLEMS + 1))


def config_warnings(config: InferenceConfig) -> tuple[str, ...]:
    """What is valid and should be changed: headers with credentials, which everyone who may read
    the config can see."""
    found, seen = [], "can be seen by everyone who may read this config"
    for end in ("input", "output"):
        headers = _at(getattr(config.spec.storage, end), KrateoStorage.label, "api", "headers")
        for index, header in enumerate(headers if isinstance(headers, list) else ()):
            if isinstance(header, str) and is_credential(name := split_header(header)[0]):
                field = f"spec.storage.{end}.krateo.api.headers.{index} ({shown(name)})"
                found.append(f"{field} {seen}; use headersFrom with a Secret")
    if len(found) > MAX_PROBLEMS:
        found[MAX_PROBLEMS:] = [f"{len(found) - MAX_PROBLEMS} more headers {seen}"]
    return tuple(found)


def _at(value: object, *keys: str) -> object:
    """The member at a path of keys; None if something on the way is missing."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _run_problems(spec: InferenceRunSpec, min_interval: int) -> Iterator[Problem]:
    if spec.backfill is not None and spec.backfill.start > spec.backfill.end:
        allowed = f"must not be after spec.backfill.end ({rfc3339(spec.backfill.end)})"
        yield invalid("spec.backfill.start", rfc3339(spec.backfill.start), allowed)
    if spec.backfill is None and spec.config_ref is None:
        yield invalid("spec.configRef", None, "it is required, such as {name: iris}")
    yield from _schedule_problems(spec, min_interval)
    if spec.time_zone is not None:
        try:
            check_time_zone(spec.time_zone)
        except InvalidTimeZone as wrong:
            yield invalid("spec.timeZone", spec.time_zone, str(wrong))
    parameters, reserved = spec.parameters or {}, ", ".join(RESERVED_PARAMETERS)
    for name in sorted(set(parameters) & set(RESERVED_PARAMETERS)):
        yield invalid(
            f"spec.parameters.{name}", parameters[name], f"the names {reserved} are reserved"
        )
    yield from _size_problems("spec.parameters", parameters)
    yield from _threshold_problems(spec.error_threshold)
    yield from _resource_problems(spec.resources)
    if spec.interval is not None:
        yield from interval_problems(spec.interval, field="spec.interval")


def _schedule_problems(spec: InferenceRunSpec, min_interval: int) -> Iterator[Problem]:
    """What is wrong with the schedule, and with what may only be beside one, or must not."""
    if spec.schedule is None:
        for name in SCHEDULE_ONLY:
            if (value := getattr(spec, name)) is not None:
                allowed = "allowed only together with spec.schedule"
                yield invalid(f"spec.{to_camel(name)}", value, allowed)
        return
    try:
        seconds = parse_schedule(spec.schedule).shortest_interval_seconds
        if seconds < min_interval:
            required = f"at least {min_interval} s are required in this installation"
            allowed = f"it fires every {seconds} s; {required} (setting minScheduleIntervalSeconds)"
            yield invalid("spec.schedule", spec.schedule, allowed)
    except InvalidSchedule as wrong:
        yield invalid("spec.schedule", spec.schedule, str(wrong))
    if spec.interval is not None:
        allowed = (
            "not allowed with spec.schedule, whose runs get the time since the last scheduled one"
        )
        yield invalid("spec.interval", str(spec.interval), allowed)
    if spec.dry_run:
        yield invalid(
            "spec.dryRun", spec.dry_run, "not allowed with spec.schedule; use a run of its own"
        )
    if spec.retry_of:
        yield invalid("spec.retryOf", spec.retry_of, "not allowed with spec.schedule")


def _threshold_problems(threshold: int | str | None) -> Iterator[Problem]:
    if threshold is None:
        return
    try:
        ErrorThreshold.parse(threshold)
    except ValueError as wrong:
        yield invalid("spec.errorThreshold", threshold, str(wrong))


def _shard_problems(spec: InferenceConfigSpec) -> Iterator[Problem]:
    """Another image may be that of the built-in runner; whether it is, is found out when a run is
    launched."""
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
        yield invalid("spec.shards", spec.shards, obstacle)


def _column_problems(spec: InferenceConfigSpec) -> Iterator[Problem]:
    copied = spec.pass_through_columns or ()
    if spec.join_source is JoinSource.INPUT and copied:
        yield invalid(
            "spec.joinSource",
            "Input",
            "copies all columns; remove spec.passThroughColumns, or set None",
        )
    members = ", ".join(RESULT_MEMBERS)
    for at, name in enumerate(copied):
        if name in RESULT_MEMBERS:
            reason = f"not allowed: results have a member of that name; their members are {members}"
            yield invalid(f"spec.passThroughColumns.{at}", name, reason)
        elif name in copied[:at]:
            yield invalid(f"spec.passThroughColumns.{at}", name, "but it is named twice")
    if spec.image is not None:
        return
    # The built-in runner has no named columns for some protocols, and for data handlers.
    protocol = spec.model.protocol_version or spec.model.model_version
    tensors = spec.tensors or TensorMapping()
    inputs = tensors.inputs or ()
    for at, one in enumerate(inputs if len(inputs) > 1 else ()):
        if not one.columns:
            yield Problem(
                field=f"spec.tensors.inputs.{at}.columns",
                value="not set",
                allowed="required with several inputs",
            )
    fed = any(one.columns for one in inputs)
    has_tensors = bool(inputs or tensors.outputs or tensors.parameters)
    if has_tensors and protocol and protocol not in TENSOR_PROTOCOLS:
        supported = f"the built-in runner sends named tensors with {', '.join(TENSOR_PROTOCOLS)}"
        yield Problem(
            field="spec.tensors",
            value=f"set with the protocol {shown(protocol)}",
            allowed=supported,
        )
    copies = spec.join_source is JoinSource.INPUT or bool(copied)
    remedy = "rows of a data handler have no named columns; remove tensors.inputs, joinSource and passThroughColumns"
    if (copies or fed) and KrateoStorage.label in (spec.storage.input or {}):
        yield invalid(f"spec.storage.input.{KrateoStorage.label}", "used with columns", remedy)
    if copies and KrateoStorage.label in (spec.storage.output or {}):
        yield invalid(f"spec.storage.output.{KrateoStorage.label}", "used with columns", remedy)


def _request_problems(spec: InferenceConfigSpec) -> Iterator[Problem]:
    """What is wrong with spec.request besides its templates, which the runner compiles."""
    request, own_runner = spec.request, spec.image is None
    if request is None:
        return
    protocol = spec.model.protocol_version or spec.model.model_version
    if own_runner and protocol and protocol not in REQUEST_PROTOCOLS:
        allowed = (
            f"the built-in runner makes requests of columns with {' and '.join(REQUEST_PROTOCOLS)}"
        )
        yield Problem(
            field="spec.request", value=f"set with the protocol {shown(protocol)}", allowed=allowed
        )
    if spec.tensors is not None:
        yield Problem(
            field="spec.tensors", value="set with spec.request", allowed="remove one of them"
        )
    for label, storage in (spec.storage.input or {}).items() if own_runner else ():
        if _at(storage, "format") == "openai":
            allowed = "with spec.request the input must have columns: jsonl, csv, parquet, arrow or orc; or remove spec.request"
            yield invalid(f"spec.storage.input.{label}.format", "openai", allowed)
    yield from request_problems(request, protocol=protocol or "")
    yield from _size_problems("spec.request.body", request.body or {}, limit=MAX_BODY_BYTES)
    yield from _size_problems(
        "spec.request.responseSchema", request.response_schema or {}, limit=MAX_SCHEMA_BYTES
    )


def _size_problems(field: str, value: object, *, limit: int = MAX_BYTES) -> Iterator[Problem]:
    size = len(json.dumps(value, ensure_ascii=False, default=str).encode())
    if size > limit:
        yield Problem(
            field=field, value=f"{size} bytes of JSON", allowed=f"at most {limit} bytes are allowed"
        )


def _model_problems(spec: InferenceConfigSpec) -> Iterator[Problem]:
    model, own_runner = spec.model, spec.image is None
    protocol = model.protocol_version
    flat = spec.model_dump(by_alias=True, include=MODEL_FIELDS)
    nested = spec.kserve.model_dump(by_alias=True) if spec.kserve is not None else {}
    for name, value in flat.items():
        public, other = public_url if name == "modelUrl" else str, nested.get(name)
        if value and other and value != other:
            conflict = f'but spec.kserve.{name} is "{shown(public(other))}"'
            yield invalid(
                f"spec.{name}",
                public(value),
                f"{conflict}; set only one of them, or both to the same value",
            )
        if own_runner and has_placeholders(used := other or value or ""):
            allowed = "must not contain placeholders; they are allowed in spec.storage"
            yield invalid(f"spec.kserve.{name}", public(used), allowed)
    if own_runner and protocol and protocol not in OWN_RUNNER_PROTOCOLS:
        supported = f"{', '.join(OWN_RUNNER_PROTOCOLS[:-1])} and {OWN_RUNNER_PROTOCOLS[-1]}"
        hint = did_you_mean(protocol, OWN_RUNNER_PROTOCOLS)
        fix = "any other protocol requires an image in spec.image that provides it"
        yield invalid(
            "spec.kserve.protocolVersion",
            protocol,
            f"the built-in runner supports {supported}{hint}; {fix}",
        )
    if model.model_version and model.model_version not in MODEL_VERSIONS:
        whose = " with the built-in runner" if own_runner else ""
        yield invalid(
            "spec.kserve.modelVersion",
            model.model_version,
            f"must be {' or '.join(MODEL_VERSIONS)}{whose}",
        )
    audience = model.token_audience
    if audience and not spec.service_account_name:
        reason = "but serviceAccountName is not set, whose token it would be"
        yield invalid("spec.kserve.tokenAudience", audience, reason)
    if audience and API_SERVER_AUDIENCE.match(audience):
        reason = "is an audience of the API server: with the token, the model server could act as the service account"
        yield invalid("spec.kserve.tokenAudience", audience, reason)
    yield from connection_problems(
        model.headers or (),
        model.proxy_url,
        is_grpc=protocol == GRPC,
        has_token=audience is not None,
    )


def _address_problems(spec: InferenceConfigSpec) -> Iterator[Problem]:
    model, own_runner = spec.model, spec.image is None
    protocol, url = model.protocol_version, model.model_url
    is_grpc = protocol == GRPC
    if model.service_ref is not None and url:
        reason = "but modelUrl is set, too; set only one of them"
        yield invalid("spec.kserve.serviceRef", model.service_ref.name, reason)
    elif own_runner and model.service_ref is not None and is_grpc:
        reason = (
            "grpc-v2 requires modelUrl with the server's host and gRPC port instead of serviceRef"
        )
        yield invalid("spec.kserve.protocolVersion", protocol, reason)
    elif own_runner and model.service_ref is not None and protocol == HTTP:
        reason = (
            "http requires modelUrl with the URL to which requests are posted instead of serviceRef"
        )
        yield invalid("spec.kserve.protocolVersion", protocol, reason)
    elif own_runner and protocol == HTTP and spec.request is None:
        yield invalid("spec.request", None, "the protocol http requires it, with body and outputs")
    elif own_runner and not url and model.service_ref is None:
        example = "sklearn-iris-predictor.models/v2/models/iris/infer"
        other_field = "spec.kserve.serviceRef with the name of an object of KServe"
        allowed = f"the built-in runner requires it, for example {example}, or {other_field}"
        yield invalid("spec.kserve.modelUrl", None, allowed)
    elif own_runner and url:
        scheme = "grpc" if is_grpc else "http"
        try:
            parts = urlsplit(url if "://" in url else f"{scheme}://{url}")
            is_complete = (
                bool(parts.port) and not parts.path.strip("/") if is_grpc else parts.port != 0
            )
            is_valid = (
                parts.scheme in {scheme, f"{scheme}s"} and bool(parts.hostname) and is_complete
            )
        except ValueError:
            is_valid = False
        if not is_valid or " " in url:
            address = "must be host and port of the server, such as iris-predictor.models:8081, or grpcs://… for TLS"
            http = "must be an http or https URL; the default scheme is http"
            yield invalid("spec.kserve.modelUrl", public_url(url), address if is_grpc else http)


def _storage_problems(spec: InferenceConfigSpec) -> Iterator[Problem]:
    ends: tuple[tuple[End, Mapping[str, JsonValue]], ...] = (
        ("input", spec.storage.input or {}),
        ("output", spec.storage.output or {}),
    )
    own_runner, known = spec.image is None, ", ".join(STORES)
    models = STORES if own_runner else SCHEMA_STORES
    for name, end in ends:
        path = f"spec.storage.{name}"
        if own_runner and not end:
            yield invalid(path, None, f"the built-in runner requires one of the labels {known}")
        for label in end if own_runner else ():
            if label not in STORES:
                supported = f"the built-in runner supports {known}{did_you_mean(label, STORES)}"
                allowed = f"{supported}; any other label requires a custom image in spec.image"
                yield invalid(f"{path}.{label}", shown(end[label]), allowed)
        if own_runner and len(end) > 1:
            yield Problem(
                field=path,
                value=", ".join(end),
                allowed="the built-in runner supports only one label",
            )
        for label, value in end.items():
            if label in models:
                given = sample_of(spec.parameters or ())
                sample = resolve_storage(
                    value, model=models[label], path=f"{path}.{label}", given=given
                )
                yield from map(template_problem, sample.faults)
                if not sample.faults:
                    yield from storage_problems(
                        sample.storage, model=models[label], end=name, path=f"{path}.{label}"
                    )
                form = _at(value, "format") if issubclass(models[label], DatasetStorage) else None
                if own_runner and form and isinstance(form, str) and form not in FORMATS:
                    yield unknown_format(f"{path}.{label}.format", form)
                if (
                    isinstance(value, dict)
                    and "workloadIdentity" in value
                    and not spec.service_account_name
                ):
                    reason = "but serviceAccountName is not set, whose token it would be"
                    yield invalid(f"{path}.{label}.workloadIdentity", "set", reason)
            elif not isinstance(value, dict):
                yield invalid(f"{path}.{label}", shown(value), "must be an object")
    yield from _size_problems("spec.storage", spec.storage.model_dump(mode="json"))


def _partition_problems(spec: InferenceConfigSpec) -> Iterator[Problem]:
    """Results in the folders of an input that has none."""
    others = [
        label
        for label in spec.storage.input or {}
        if spec.image is None and label not in FOLDER_LABELS
    ]
    for label, value in (spec.storage.output or {}).items() if others else ():
        if _at(value, "layout", "partitions") == "Input":
            allowed = f"an input of the label {others[0]} has no partitions; remove the field"
            yield invalid(f"spec.storage.output.{label}.layout.partitions", "Input", allowed)


def template_problem(fault: TemplateFault) -> Problem:
    """The problem of a string with placeholders, if that is what is wrong."""
    cause, is_hidden = fault.cause, not CONFIDENTIAL.isdisjoint(fault.field.split("."))
    allowed = str(cause)
    if isinstance(cause, UnfitValue):
        allowed = f'{cause.placeholder} stands for "{shown(cause.value)}" there, which {cause.why}'
    elif is_hidden and cause.found:
        allowed = f"a placeholder in it {cause.why}"
    return Problem(
        field=fault.field, value=HIDDEN if is_hidden else shown(fault.template), allowed=allowed
    )


def storage_problems(
    value: JsonValue, *, model: type[Store], end: End, path: str
) -> Iterator[Problem]:
    """The problems of the object of a label that the built-in runner supports, in which
    placeholders are resolved."""
    try:
        read_storage(value, model, end=end, path=path)
    except InvalidStorage as invalid_storage:
        yield from invalid_storage.problems


def _resource_problems(resources: ResourceRequirements | None) -> Iterator[Problem]:
    resources = resources or ResourceRequirements()
    requests, limits = resources.requests or {}, resources.limits or {}
    for name, quantities in (("requests", requests), ("limits", limits)):
        for resource, value in quantities.items():
            field = f"spec.resources.{name}.{resource}"
            if (
                "/" not in resource
                and resource not in STANDARD_RESOURCES
                and not resource.startswith("hugepages-")
            ):
                names = f"{', '.join(STANDARD_RESOURCES)}, hugepages-SIZE and names such as nvidia.com/gpu"
                hint = did_you_mean(resource, STANDARD_RESOURCES)
                yield invalid(field, value, f"unknown resource{hint}; allowed are {names}")
            if not re.fullmatch(QUANTITY, str(value)) or amount(value) < 0:
                allowed = "must be a quantity from 0 such as 2, 500m or 256Mi; an exponent has at most two digits"
                yield invalid(field, value, allowed)
    for resource, value in requests.items():
        if resource in limits and amount(value) > amount(limits[resource]):
            allowed = f"must be at most the limit, {limits[resource]}"
            yield invalid(f"spec.resources.requests.{resource}", value, allowed)


def _node_problems(spec: InferenceConfigSpec) -> Iterator[Problem]:
    for at, one in enumerate(spec.tolerations or ()):
        if one.operator == "Exists" and one.value:
            allowed = 'not allowed with the operator "Exists"'
            yield invalid(f"spec.tolerations.{at}.value", one.value, allowed)
    for condition in spec.affinity.conditions if spec.affinity is not None else ():
        values = condition.values or ()
        match condition.operator:
            case "Exists" | "DoesNotExist":
                fits = not values
            case "Gt" | "Lt":
                fits = len(values) == 1 and re.fullmatch("[0-9]+", values[0]) is not None
            case _:
                fits = bool(values)
        if not fits:
            allowed = (
                "allowed are one or more values with In and NotIn, one number with Gt and Lt, and none with Exists and "
                "DoesNotExist"
            )
            yield invalid("spec.affinity.nodeAffinity", condition.operator, allowed)


def _limit_problems(limits: RunnerLimits | None) -> Iterator[Problem]:
    for name, value in (limits.to_manifest() if limits is not None else {}).items():
        least = LEAST_WINDOW if name == "window" else LEAST_SIZE
        if not re.fullmatch(SIZE, str(value)) or not amount(least) <= amount(value) <= amount(
            LARGEST_SIZE
        ):
            yield invalid(
                f"spec.limits.{name}",
                value,
                f"must be a size from {least} to {LARGEST_SIZE}, such as 64Mi",
            )
