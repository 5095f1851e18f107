"""The model of an `InferenceService`, in the modes Knative (formerly Serverless), Standard
(formerly RawDeployment) and ModelMesh. Pure.

The gate is KServe's own status: Ready, not stopped, of the current generation, the model's
transition up to date. A model that was scaled to zero is ready, although its transition is in
progress until the next request. Two things that the status does not say are read from the
Deployment: whether its rollout has ended, and whether a model that failed to load had its time.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import SplitResult

from inferrun.kserve.answer import (
    Answered,
    ModelAddress,
    Never,
    NotYet,
    Other,
    Others,
    Stored,
    Unreadable,
    Wanted,
    needed,
)
from inferrun.kserve.status import (
    SETTLED_AFTER,
    edited_until,
    items,
    member,
    name_of,
    namespace_of,
    not_ready,
    number,
    outdated,
    rolling_out,
    rollout_failed,
    shown,
    stopped,
    text,
)
from inferrun.kserve.urls import GRPC, base_of, model_url, parts_of, service_name, with_port
from inferrun.text import one_line, public_url

FAILED_LOAD: Final = "BlockedByFailedLoad"
FAILED_TRANSITIONS: Final = (FAILED_LOAD, "InvalidSpec")
KNATIVE_MODES: Final = ("Serverless", "Knative")
RAW_MODES: Final = ("RawDeployment", "Standard")
MODE_ANNOTATION: Final = "serving.kserve.io/deploymentMode"

LOADED_AFTER: Final = timedelta(minutes=10)
"""After an edit of the spec, if nothing else tells how long a model may load; the default of a
Deployment's progress deadline."""

KNATIVE_SECONDS: Final = 300
"""Knative's default limit of a request, `revision-timeout-seconds`."""

REVISION_LIMIT: Final = 253
"""Characters of the name of a revision, which is that of an object."""

_SPEAKS: Final = ("v2", "openai", "v1", GRPC)
"""What the built-in runner speaks, preferred first."""

_CLUSTER_RUNTIMES: Final = "clusterservingruntimes"
_SERVER_TYPE: Final = "serving.kserve.io/server-type"
_SERVER_TYPES: Final = {"kserve-torchserve": "torchserve", "kserve-vllmserver": "vllmserver"}
"""The types of servers, by the name of a runtime without the annotation, as in KServe before
0.17."""

_FIX: Final = "fix the InferenceService, and when it is ready, delete and recreate the run"


def resolve_inference_service(
    item: Stored, wanted: Wanted, others: Others, *, now: datetime
) -> ModelAddress:
    """The address of the model of an InferenceService. Raises Answered."""
    closed = (
        stopped(item)
        or _failed(item, others, now=now)
        or not_ready(
            item, ("PredictorReady", "TransformerReady"), pods="serving.kserve.io/inferenceservice"
        )
        or outdated(item, now=now)
        or _in_transition(item)
        # Ready is True as soon as any of the new Pods is
        or rolling_out(item, _deployment(item, others))
    )
    if closed is not None:
        raise Answered(closed)
    protocol = _protocol(item, wanted, others)
    address, authorities = _address(item, others, protocol=protocol)
    model = wanted.model_name or _model_name(item)
    limits = [number(item, "spec", part, "timeout") for part in ("predictor", "transformer")]
    is_prefixed = text(item, "spec", "predictor", "model", "modelFormat", "name") == "huggingface"
    return ModelAddress(
        url=model_url(base_of(address), protocol=protocol, model=model, is_prefixed=is_prefixed),
        model_name=model,
        protocol=protocol,
        generation=number(item, "metadata", "generation") or 0,
        revision=revision_of(item),
        concurrency=_concurrency(item),
        request_seconds=min(
            filter(None, limits), default=KNATIVE_SECONDS if _mode(item) in KNATIVE_MODES else 0
        ),
        ca_certificates=authorities,
        warnings=_warnings(item),
    )


def _failed(item: Stored, others: Others, *, now: datetime) -> Never | NotYet | None:
    """The answer for a model that failed to load. KServe keeps this state after an edit until a new
    Pod has a status, and has it while a container that exited once is restarted: it is final only
    if the model had its time.
    """
    status = member(item, "status", "modelStatus")
    transition = text(status, "transitionStatus")
    if transition not in FAILED_TRANSITIONS:
        return None
    if transition == FAILED_LOAD and (behind := outdated(item, now=now)) is not None:
        return behind
    info = member(status, "lastFailureInfo")
    found = ": ".join(part for part in (text(info, "reason"), text(info, "message")) if part)
    why = one_line(found, limit=512) or shown(item, "Ready")
    failure = f"{name_of(item)} cannot load its model ({transition}): {why}"
    waits = f"{failure}; the run starts when it has loaded"
    rollout = _deployment(item, others) if transition == FAILED_LOAD else None
    if isinstance(rollout, Mapping):
        return (
            Never(f"{failure}; {_FIX}") if rollout_failed(rollout) else NotYet(waits, is_other=True)
        )
    until = edited_until(item, LOADED_AFTER if transition == FAILED_LOAD else SETTLED_AFTER)
    if until is not None and now < until:
        return NotYet(waits, until=until)
    has_loaded_before = text(status, "states", "activeModelState") == "Loaded"
    return (
        NotYet(waits)
        if transition == FAILED_LOAD and has_loaded_before
        else Never(f"{failure}; {_FIX}")
    )


def _deployment(item: Stored, others: Others) -> Stored | Unreadable | None:
    if _mode(item) not in RAW_MODES:
        return None
    name = _workload_names(item, "predictor")[0]
    return needed(others, Other("deployments", namespace_of(item), name))


def _workload_names(item: Stored, component: str) -> tuple[str, ...]:
    name, own = text(item, "metadata", "name"), text(item, "spec", component, "name")
    named = (f"{name}-{own}-{component}",) if own and component == "predictor" else ()
    return (*named, f"{name}-{component}", f"{name}-{component}-default")


def _in_transition(item: Stored) -> NotYet | None:
    status = member(item, "status", "modelStatus")
    transition, copies = text(status, "transitionStatus"), member(status, "copies")
    has_none = not number(copies, "totalCopies") and not number(copies, "failedCopies")
    is_scaled_to_zero = has_none and text(status, "states", "targetModelState") in ("", "Pending")
    # then the first request starts a replica
    if transition in ("", "UpToDate") or is_scaled_to_zero:
        return None
    before, after = (
        text(status, "states", f"{which}ModelState") or "none" for which in ("active", "target")
    )
    states = (
        f"its model is {after}"
        if before == "none"
        else f"its model is {before}, and the next one is {after}"
    )
    return NotYet(
        f"{name_of(item)} is not up to date: {states} ({transition}); the run starts when it is"
    )


def _protocol(item: Stored, wanted: Wanted, others: Others) -> str:
    """What the config says, else what the object or the environment of its custom container says,
    else the first one of its runtime that the built-in runner speaks.

    A runtime that lists several speaks them all, except for TorchServe, which KServe starts with
    one. For the format vLLM, KServe's webhook adds `protocolVersion: v2`, although its runtime
    lists no protocol and speaks only OpenAI's.
    """
    if wanted.protocol:
        return wanted.protocol
    model = member(item, "spec", "predictor", "model")
    variables = [
        one
        for container in items(item, "spec", "predictor", "containers")
        for one in items(container, "env")
    ]
    of_container = next(
        (text(one, "value") for one in variables if text(one, "name") == "PROTOCOL"), ""
    )
    declared = (text(model, "protocolVersion") or of_container).lower()
    is_vllm = text(model, "modelFormat", "name") == "vLLM"
    if not is_vllm and (declared in _SPEAKS or (declared and not wanted.is_our_runner)):
        return declared
    if model is None:
        offered: tuple[str, ...] = (declared,) if declared else _SPEAKS[:1]
    else:
        own = text(item, "status", "servingRuntimeName")
        of_cluster = text(item, "status", "clusterServingRuntimeName")
        name, found = own or of_cluster or text(model, "runtime"), None
        if name:
            plural, place = (
                ("servingruntimes", namespace_of(item)) if own else (_CLUSTER_RUNTIMES, "")
            )
            found = needed(others, Other(plural, place, name))
        server = text(found, "metadata", "annotations", _SERVER_TYPE) or _SERVER_TYPES.get(name, "")
        listed = tuple(str(one).lower() for one in items(found, "spec", "protocolVersions"))
        if is_vllm:
            offered = (declared,) if declared in listed and server != "vllmserver" else ("openai",)
        else:
            offered = (
                ("v1",)
                if server == "torchserve" and not declared
                else listed or (declared or "v1",)
            )
    if not wanted.is_our_runner:
        return offered[0]
    spoken = next((one for one in _SPEAKS if one in offered), None)
    if spoken is None:
        message = (
            f"{name_of(item)} speaks {' and '.join(offered)}, but the built-in runner speaks {' and '.join(_SPEAKS)}; set "
            "protocolVersion: v2 in its spec.predictor.model if its runtime supports it, kserve.protocolVersion in the "
            "InferenceConfig if the object is wrong, or spec.image to an image that speaks it"
        )
        raise Answered(Never(message))
    return spoken


def _model_name(item: Stored) -> str:
    """The name that the server's arguments set, or MLServer's environment, else the object's, as in
    KServe's runtimes."""
    predictor = member(item, "spec", "predictor")
    containers = (
        *items(item, "spec", "transformer", "containers"),
        member(predictor, "model"),
        *items(predictor, "containers"),
    )
    for container in containers:
        for variable in items(container, "env"):
            if text(variable, "name") == "MLSERVER_MODEL_NAME" and (
                named := text(variable, "value")
            ):
                return named
        arguments = [str(one) for one in (*items(container, "command"), *items(container, "args"))]
        for at, argument in enumerate(arguments):
            flag, equals, value = argument.partition("=")
            if (
                flag in ("--model_name", "--model-name", "--served-model-name")
                and "{{" not in argument
            ):
                following = arguments[at + 1] if at + 1 < len(arguments) else ""
                return (value if equals else following) or text(item, "metadata", "name")
    return text(item, "metadata", "name")


def _address(item: Stored, others: Others, *, protocol: str) -> tuple[SplitResult, str]:
    """The first address in the status or that of the predictor's Service, and the certificates of
    its authorities."""
    status, mode = member(item, "status"), _mode(item)
    component = "transformer" if member(item, "spec", "transformer") is not None else "predictor"
    of_component = member(status, "components", component)
    is_internal = bool(text(status, "address", "url") or text(of_component, "address", "url"))
    if mode in RAW_MODES and not is_internal:  # the URLs are those of an ingress
        service = _predictor_service(item, others, component, protocol=protocol)
        if service is not None:
            return service, ""
    addresses = [member(status, "address"), member(of_component, "address")]
    entries = [(text(address, "url"), text(address, "CACerts")) for address in addresses]
    entries += [(text(of_component, key), "") for key in ("restUrl", "url", "grpcUrl")]
    entries = [entry for entry in (*entries, (text(status, "url"), "")) if entry[0]]
    if protocol == GRPC:
        entries.sort(key=lambda entry: not entry[0].startswith("grpc"))
    candidates = [
        (parts, cas)
        for url, cas in entries
        if (parts := parts_of(url, protocol=protocol)) is not None
    ]
    if entries and not candidates:
        message = (
            f"{name_of(item)} has the address {public_url(entries[0][0])}, which is not an http or https URL; set kserve.modelUrl "
            "instead of kserve.serviceRef in the InferenceConfig"
        )
        raise Answered(Never(message))
    if candidates:
        parts, authorities = candidates[0]
        namespace = namespace_of(item)
        has_final_port = mode in KNATIVE_MODES or (parts.port is not None and mode not in RAW_MODES)
        name = "" if has_final_port else service_name(parts, namespace=namespace)
        if not name:
            return parts, authorities
        found = needed(others, Other("services", namespace, name))
        if found is not None or parts.port is not None:
            return with_port(parts, found, protocol=protocol), authorities
    service = _predictor_service(item, others, component, protocol=protocol)
    if service is None:
        missing = f"its status has no address and Service {_workload_names(item, component)[0]} does not exist"
        message = (
            f"{name_of(item)} is ready, but {missing}; the run starts when KServe has written one"
        )
        raise Answered(NotYet(message, is_other=True))
    return service, ""


def _predictor_service(
    item: Stored, others: Others, component: str, *, protocol: str
) -> SplitResult | None:
    """The address of the Service that KServe makes for the component; None if it does not exist."""
    namespace = namespace_of(item)
    for name in _workload_names(item, component):
        service = needed(others, Other("services", namespace, name))
        parts = parts_of(f"http://{name}.{namespace}.svc.cluster.local")
        if service is not None and parts is not None:
            return with_port(parts, service, protocol=protocol)
    return None


def _mode(item: Stored) -> str:
    return text(item, "status", "deploymentMode") or text(
        item, "metadata", "annotations", MODE_ANNOTATION
    )


def revision_of(item: Stored) -> str:
    """The revision that serves the model, in Knative mode."""
    predictor = member(item, "status", "components", "predictor")
    revision = text(predictor, "latestRolledoutRevision") or text(predictor, "latestReadyRevision")
    return one_line(revision, limit=REVISION_LIMIT)


def _concurrency(item: Stored) -> int:
    """Requests at a time, if the predictor limits them; for the number of replicas that there are
    at least."""
    predictor = member(item, "spec", "predictor")
    per_replica = number(predictor, "containerConcurrency") or 0
    running = number(item, "status", "modelStatus", "copies", "totalCopies") or 0
    return per_replica * max(1, running, number(predictor, "minReplicas") or 0)


def _warnings(item: Stored) -> tuple[str, ...]:
    predictor = member(item, "spec", "predictor")
    found = []
    if member(predictor, "batcher") is not None:
        found.append(
            f"{name_of(item)} has a batcher, which delays and joins requests that the runner has batched already; remove "
            "spec.predictor.batcher, or set spec.requests.maxBatchRecords to its maxBatchSize in the InferenceConfig"
        )
    if canaries := [
        name for one in items(item, "spec", "canary") if (name := text(one, "predictor", "name"))
    ]:
        found.append(
            f"{name_of(item)} has canaries ({', '.join(canaries)}), which get requests through its gateway only: this run calls "
            "the predictor alone; to call a canary, set kserve.modelUrl to its Service in the InferenceConfig"
        )
    percent = number(predictor, "canaryTrafficPercent")
    if percent and percent < 100:
        found.append(
            f"{name_of(item)} sends {percent} % of the requests to its latest revision, so the predictions come from two models; "
            "call one of them with kserve.modelUrl in the InferenceConfig if that must not be"
        )
    return tuple(found)
