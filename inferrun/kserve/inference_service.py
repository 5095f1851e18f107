"""The model of an `InferenceService`, in the modes Knative (formerly Serverless), Standard (formerly RawDeployment) and
ModelMesh. Pure.

The gate is KServe's own status: Ready, not stopped, of the current generation, the model's transition up to date. A model that
was scaled to zero is ready, although its transition is in progress until the next request.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Final
from urllib.parse import SplitResult

from inferrun.kserve.answer import Answer, ModelAddress, Needs, Never, NotYet, Other, Others, Stored, Unreadable, Wanted
from inferrun.kserve.status import (
    is_true,
    items,
    member,
    name_of,
    not_ready,
    number,
    outdated,
    shown,
    stopped,
    text,
)
from inferrun.kserve.urls import GRPC, base_of, model_url, parts_of, service_name, with_port
from inferrun.text import one_line, public_url

FAILED_TRANSITIONS: Final = ("BlockedByFailedLoad", "InvalidSpec")
KNATIVE_MODES: Final = ("Serverless", "Knative")
RAW_MODES: Final = ("RawDeployment", "Standard")
MODE_ANNOTATION: Final = "serving.kserve.io/deploymentMode"

KNATIVE_SECONDS: Final = 300
"""Knative's default limit of a request, `revision-timeout-seconds`."""

REVISION_LIMIT: Final = 253
"""Characters of the name of a revision, which is that of an object."""

_SPEAKS: Final = ("v2", "openai", "v1", GRPC)
"""What the built-in runner speaks, preferred first."""

_FIX: Final = "fix the InferenceService, then delete and recreate the run"


def resolve_inference_service(item: Stored, wanted: Wanted, others: Others, *, now: datetime) -> Answer:
    """The answer for an InferenceService."""
    closed = stopped(item) or _failed(item) or _not_ready(item) or outdated(item, now=now) or _in_transition(item)
    if closed is not None:
        return closed
    protocol = _protocol(item, wanted, others)
    if not isinstance(protocol, str):
        return protocol
    found = _address(item, others, protocol=protocol)
    if isinstance(found, NotYet | Never | Needs):
        return found
    address, authorities = found
    model = wanted.model_name or _model_name(item)
    is_prefixed = text(item, "spec", "predictor", "model", "modelFormat", "name") == "huggingface"
    return ModelAddress(
        url=model_url(base_of(address), protocol=protocol, model=model, is_prefixed=is_prefixed),
        model_name=model,
        protocol=protocol,
        generation=number(item, "metadata", "generation") or 0,
        revision=revision_of(item),
        concurrency=_concurrency(item),
        request_seconds=_request_seconds(item),
        ca_certificates=authorities,
        warnings=_warnings(item),
    )


def _failed(item: Stored) -> Never | None:
    transition = text(item, "status", "modelStatus", "transitionStatus")
    if transition not in FAILED_TRANSITIONS:
        return None
    info = member(item, "status", "modelStatus", "lastFailureInfo")
    found = ": ".join(part for part in (text(info, "reason"), text(info, "message")) if part)
    why = one_line(found, limit=512) or shown(item, "Ready")
    return Never(f"{name_of(item)} cannot load its model ({transition}): {why}; {_FIX}")


def _not_ready(item: Stored) -> NotYet | None:
    if is_true(item, "Ready"):
        return None
    return not_ready(item, shown(item, "Ready"), pods="serving.kserve.io/inferenceservice")


def _in_transition(item: Stored) -> NotYet | None:
    status = member(item, "status", "modelStatus")
    transition = text(status, "transitionStatus")
    if transition in ("", "UpToDate") or _is_scaled_to_zero(status):
        return None
    before, after = (text(status, "states", f"{which}ModelState") or "none" for which in ("active", "target"))
    states = f"its model is {after}" if before == "none" else f"its model is {before}, and the next one is {after}"
    return NotYet(f"{name_of(item)} is not up to date: {states} ({transition}); the run starts when it is")


def _is_scaled_to_zero(status: object) -> bool:
    """Whether nothing runs and nothing failed: the first request starts a replica."""
    copies = member(status, "copies")
    has_none = not number(copies, "totalCopies") and not number(copies, "failedCopies")
    return has_none and text(status, "states", "targetModelState") in ("", "Pending")


def _protocol(item: Stored, wanted: Wanted, others: Others) -> str | Never | Needs:
    """What the config says, else what the object says, else the first one of its runtime that the built-in runner speaks."""
    if wanted.protocol:
        return wanted.protocol
    model = member(item, "spec", "predictor", "model")
    declared = text(model, "protocolVersion").lower() or _custom_protocol(item)
    if declared in _SPEAKS or (declared and not wanted.is_our_runner):
        return declared
    if model is None:
        offered: tuple[str, ...] = (declared,) if declared else _SPEAKS[:1]
    else:
        runtime = _runtime(item)
        if runtime is not None and runtime not in others:
            return Needs(runtime)
        offered = _versions(others.get(runtime) if runtime else None) or (declared or "v1",)
    if not wanted.is_our_runner:
        return offered[0]
    found = next((one for one in _SPEAKS if one in offered), None)
    return found or Never(
        f"{name_of(item)} speaks {' and '.join(offered)}, but the built-in runner speaks {' and '.join(_SPEAKS)}; set "
        "protocolVersion: v2 in its spec.predictor.model if its runtime supports it, kserve.protocolVersion in the "
        "InferenceConfig if the object is wrong, or spec.image to an image that speaks it"
    )


def _custom_protocol(item: Stored) -> str:
    """KServe reads the protocol of a custom container from its environment."""
    for container in items(item, "spec", "predictor", "containers"):
        for variable in items(container, "env"):
            if text(variable, "name") == "PROTOCOL":
                return text(variable, "value").lower()
    return ""


def _runtime(item: Stored) -> Other | None:
    namespace = text(item, "metadata", "namespace")
    if own := text(item, "status", "servingRuntimeName"):
        return Other("servingruntimes", namespace, own)
    if shared := text(item, "status", "clusterServingRuntimeName"):
        return Other("clusterservingruntimes", "", shared)
    named = text(item, "spec", "predictor", "model", "runtime")
    return Other("clusterservingruntimes", "", named) if named else None


def _versions(runtime: "Stored | Unreadable | None") -> tuple[str, ...]:
    if runtime is None or isinstance(runtime, Unreadable):
        return ()
    return tuple(str(one).lower() for one in items(runtime, "spec", "protocolVersions"))


def _model_name(item: Stored) -> str:
    """The name that the server's arguments set, else the object's, as in KServe's runtimes."""
    predictor = member(item, "spec", "predictor")
    containers = [*items(predictor, "containers"), member(predictor, "model")]
    for container in containers:
        arguments = [str(one) for one in (*items(container, "command"), *items(container, "args"))]
        for at, argument in enumerate(arguments):
            flag, equals, value = argument.partition("=")
            if flag in ("--model_name", "--model-name", "--served-model-name") and "{{" not in argument:
                following = arguments[at + 1] if at + 1 < len(arguments) else ""
                return (value if equals else following) or text(item, "metadata", "name")
    return text(item, "metadata", "name")


def _address(item: Stored, others: Others, *, protocol: str) -> tuple[SplitResult, str] | NotYet | Never | Needs:
    """The address, and the certificates of its authorities."""
    if _mode(item) in RAW_MODES and not _has_address(item):  # the other URLs are those of an ingress
        service = _predictor_service(item, others, protocol=protocol)
        if not isinstance(service, NotYet):
            return _without_authorities(service)
    return _listed_address(item, others, protocol=protocol)


def _listed_address(item: Stored, others: Others, *, protocol: str) -> tuple[SplitResult, str] | NotYet | Never | Needs:
    """The first one in the status, or that of the predictor's Service."""
    entries = list(_entries(item))
    if protocol == GRPC:
        entries.sort(key=lambda entry: not entry[0].startswith("grpc"))
    candidates = [(parts, cas) for url, cas in entries if (parts := parts_of(url, protocol=protocol)) is not None]
    if not candidates:
        found, _ = next(iter(entries), ("", ""))
        if found:
            return Never(
                f"{name_of(item)} has the address {public_url(found)}, which is no http or https URL; set kserve.modelUrl "
                "instead of kserve.serviceRef in the InferenceConfig"
            )
        return _without_authorities(_predictor_service(item, others, protocol=protocol))
    parts, authorities = candidates[0]
    namespace = text(item, "metadata", "namespace")
    service = service_name(parts, namespace=namespace) if _mode(item) not in KNATIVE_MODES else ""
    if not service:
        return parts, authorities
    named = Other("services", namespace, service)
    if named not in others:
        return Needs(named)
    if others[named] is None:
        return _without_authorities(_predictor_service(item, others, protocol=protocol))
    return with_port(parts, others[named], protocol=protocol), authorities


def _without_authorities(found: SplitResult | NotYet | Needs) -> tuple[SplitResult, str] | NotYet | Needs:
    return (found, "") if isinstance(found, SplitResult) else found


def _has_address(item: Stored) -> bool:
    """Whether the status has an address inside the cluster."""
    status = member(item, "status")
    component = member(status, "components", _component(item))
    return bool(text(status, "address", "url") or text(component, "address", "url"))


def _component(item: Stored) -> str:
    return "transformer" if member(item, "spec", "transformer") is not None else "predictor"


def _entries(item: Stored) -> Iterator[tuple[str, str]]:
    """The URLs in the status, preferred first, with the certificates of their authorities."""
    status = member(item, "status")
    of_component = member(status, "components", _component(item))
    addresses = [member(status, "address"), member(of_component, "address")]
    found = [(text(address, "url"), text(address, "CACerts")) for address in addresses]
    found += [(text(of_component, key), "") for key in ("restUrl", "url", "grpcUrl")]
    yield from ((url, cas) for url, cas in (*found, (text(status, "url"), "")) if url)


def _predictor_service(item: Stored, others: Others, *, protocol: str) -> SplitResult | NotYet | Needs:
    """The address of the Service that KServe makes for the predictor, or the transformer before it."""
    namespace, name = text(item, "metadata", "namespace"), text(item, "metadata", "name")
    component = _component(item)
    for service in (f"{name}-{component}", f"{name}-{component}-default"):
        named = Other("services", namespace, service)
        if named not in others:
            return Needs(named)
        if others[named] is not None:
            parts = parts_of(f"http://{service}.{namespace}.svc.cluster.local")
            assert parts is not None  # noqa: S101 -- made of valid names
            return with_port(parts, others[named], protocol=protocol)
    return NotYet(
        f"{name_of(item)} is ready, but its status has no address and Service {name}-{component} does not exist; the run "
        "starts when KServe has written one",
        is_other=True,
    )


def _mode(item: Stored) -> str:
    return text(item, "status", "deploymentMode") or text(item, "metadata", "annotations", MODE_ANNOTATION)


def revision_of(item: Stored) -> str:
    """The revision that serves the model, in Knative mode."""
    predictor = member(item, "status", "components", "predictor")
    revision = text(predictor, "latestRolledoutRevision") or text(predictor, "latestReadyRevision")
    return one_line(revision, limit=REVISION_LIMIT)


def _concurrency(item: Stored) -> int:
    """Requests at a time, if the predictor limits them; for the number of replicas that there are at least."""
    predictor = member(item, "spec", "predictor")
    per_replica = number(predictor, "containerConcurrency") or 0
    running = number(item, "status", "modelStatus", "copies", "totalCopies") or 0
    return per_replica * max(1, running, number(predictor, "minReplicas") or 0)


def _request_seconds(item: Stored) -> int:
    limits = [number(item, "spec", part, "timeout") for part in ("predictor", "transformer")]
    given = [limit for limit in limits if limit]
    if given:
        return min(given)
    return KNATIVE_SECONDS if _mode(item) in KNATIVE_MODES else 0


def _warnings(item: Stored) -> tuple[str, ...]:
    batcher = member(item, "spec", "predictor", "batcher")
    if batcher is None:
        return ()
    warning = (
        f"{name_of(item)} has a batcher, which delays and joins requests that the runner has batched already; remove "
        "spec.predictor.batcher, or set spec.requests.maxBatchRecords to its maxBatchSize in the InferenceConfig"
    )
    return (warning,)
