"""The model of an `LLMInferenceService`, with or without a router. Pure.

Its controller never sets `status.address`. It lists addresses; without a router, one of the
workload's Service without the port (KServe 0.16: none). An address of a gateway may require the
model's qualified name, which it lists. The spec is merged with those of `baseRefs`, of which the
last one that names the model takes precedence, even over the object's own name.
"""

import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Final, TypeAlias
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
    condition,
    items,
    member,
    name_of,
    namespace_of,
    not_ready,
    number,
    outdated,
    rolling_out,
    shown,
    stopped,
    text,
)
from inferrun.kserve.urls import base_of, is_internal, model_url, parts_of, service_name, with_port

CONFIGURATION_ERRORS: Final = (
    "ConfigNotFound",
    "CombineBaseError",
    "InvalidRenderedConfig",
    "RefsInvalid",
)
"""Reasons of conditions that only an edit of the object or of what it refers to can change."""

_CONFIGURED_BY: Final = (
    "PresetsCombined",
    "HTTPRoutesReady",
    "GatewaysReady",
    "RouterReady",
    "Ready",
)
_SELF_SIGNED: Final = "-kserve-self-signed-certs"
_WORKLOAD: Final = "-kserve-workload-svc"
_SYSTEM_NAMESPACE: Final = "kserve"
"""Where KServe looks for a base that the object's namespace does not have."""

_CHILD_NAME_LIMIT: Final = 63

_Bases: TypeAlias = Mapping[str, "Stored | Unreadable"]


def resolve_llm_inference_service(
    item: Stored, wanted: Wanted, others: Others, *, now: datetime
) -> ModelAddress:
    """The address of the model of an LLMInferenceService. Raises Answered."""
    wrong = (
        kind
        for kind in _CONFIGURED_BY
        if (found := condition(item, kind)) and text(found, "reason") in CONFIGURATION_ERRORS
        if text(found, "status") == "False"
    )
    misconfigured = None
    if kind := next(wrong, ""):
        fix = "fix it, then delete and recreate the run"
        misconfigured = Never(
            f"{name_of(item)} has an invalid configuration: {shown(item, kind)}; {fix}"
        )
    unready = not_ready(item, ("WorkloadsReady", "RouterReady"), pods="app.kubernetes.io/name")
    closed = stopped(item) or misconfigured or unready or outdated(item, now=now)
    primary = member(item, "status", "workloads", "primary")
    # Pods of the previous spec may still serve
    if closed is None and text(primary, "kind") == "Deployment":
        deployment = Other("deployments", namespace_of(item), text(primary, "name"))
        closed = rolling_out(item, needed(others, deployment))
    if closed is not None:
        raise Answered(closed)
    bases = _bases(item, others)
    model = wanted.model_name or _served_name(item, bases)
    unreadable = [name for name, base in bases.items() if isinstance(base, Unreadable)]
    unread = (
        f"LLMInferenceServiceConfig {', '.join(unreadable)} cannot be read; if it sets the model's name, set kserve.modelName in "
        f"the InferenceConfig, because {name_of(item)} is served under that name"
    )
    if wanted.model_name and wanted.is_our_runner and model not in _listed(item) and not unreadable:
        adapters = [
            one
            for spec in (item, *bases.values())
            for one in items(spec, "spec", "model", "lora", "adapters")
        ]
        served = [_served_name(item, bases), *filter(None, (text(one, "name") for one in adapters))]
        if model not in served:
            message = (
                f"kserve.modelName is {model!r}, but {name_of(item)} serves {', '.join(served)}"
            )
            raise Answered(
                Never(f"{message}; set one of these in the InferenceConfig, or omit modelName")
            )
    entry, parts = _address(item, bases, model)
    # and not of a gateway
    is_of_workload = member(entry, "origin") is None and not _has_route(item, bases)
    namespace = namespace_of(item)
    name = service_name(parts, namespace=namespace) if is_of_workload and parts.port is None else ""
    if name:
        service = needed(others, Other("services", namespace, name))
        if service is None:
            missing = (
                f"its Service {name} does not exist; check that KServe's controller is running"
            )
            raise Answered(NotYet(f"{name_of(item)} is ready, but {missing}", is_other=True))
        parts = with_port(parts, service)
    protocol = wanted.protocol or "openai"
    has_own_certificate = parts.scheme == "https" and is_of_workload and not text(entry, "CACerts")
    return ModelAddress(
        url=model_url(base_of(parts), protocol=protocol, model=_name_at(entry, model)),
        model_name=_name_at(entry, model),
        protocol=protocol,
        generation=number(item, "metadata", "generation") or 0,
        ca_certificates=text(entry, "CACerts"),
        ca_secret=_child_name(text(item, "metadata", "name"), _SELF_SIGNED)
        if has_own_certificate
        else "",
        warnings=(unread,) if unreadable and not wanted.model_name else (),
    )


def _bases(item: Stored, others: Others) -> _Bases:
    """The objects in `baseRefs` by name, the one that takes precedence first; none if the status
    lists the models itself."""
    if _listed(item):
        return {}
    namespace, found = namespace_of(item), {}
    for name in reversed(
        [text(reference, "name") for reference in items(item, "spec", "baseRefs")]
    ):
        for place in (namespace, _SYSTEM_NAMESPACE):
            base = needed(others, Other("llminferenceserviceconfigs", place, name))
            if base is not None:
                found[name] = base
                break
    return found


def _listed(item: Stored) -> list[str]:
    models = [one for entry in items(item, "status", "addresses") for one in items(entry, "models")]
    return [name for one in models if (name := text(one, "name"))]


def _served_name(item: Stored, bases: _Bases) -> str:
    """The base model is listed first, by its qualified name."""
    if listed := _listed(item):
        return listed[0].removeprefix(f"publishers/{namespace_of(item)}/models/")
    named = [text(one, "spec", "model", "name") for one in (*bases.values(), item)]
    return next(filter(None, named), text(item, "metadata", "name"))


def _address(item: Stored, bases: _Bases, model: str) -> tuple[Stored, SplitResult]:
    entries = [one for one in items(item, "status", "addresses") if isinstance(one, dict)]
    if promoted := text(item, "status", "url"):
        entries.append({"url": promoted})
    if not entries and not _has_route(item, bases):
        host = f"{_child_name(text(item, 'metadata', 'name'), _WORKLOAD)}.{namespace_of(item)}"
        entries.append({"url": f"http://{host}.svc.cluster.local"})
    found = [
        (entry, parts) for entry in entries if (parts := parts_of(text(entry, "url"))) is not None
    ]
    if not found:
        message = f"{name_of(item)} is ready, but its status has no address yet; the run starts when it has one"
        raise Answered(NotYet(message))

    def rank(one: tuple[Stored, SplitResult]) -> tuple[bool, int]:
        """How well the address suits the model. Without a path it routes by qualified names, and
        only by those that it lists."""
        names = [text(listed, "name") for listed in items(one[0], "models")]
        is_qualified = _name_at(one[0], model) != model
        suits = (
            0
            if not names or model in names
            else 1
            if is_qualified
            else 2
            if one[1].path.strip("/")
            else 3
        )
        return not is_internal(one[1]), suits

    return min(found, key=rank)


def _name_at(entry: Stored, model: str) -> str:
    """The name by which the address knows the model: behind some gateways only the one with the
    namespace."""
    names = [text(one, "name") for one in items(entry, "models")]
    if not names or model in names:
        return model
    return next((name for name in names if name.endswith(f"/models/{model}")), model)


def _has_route(item: Stored, bases: _Bases) -> bool:
    return any(
        member(one, "spec", "router", "route") is not None for one in (item, *bases.values())
    )


def _child_name(parent: str, suffix: str) -> str:
    """The name of an object that Knative's and KServe's controllers make for another one: long
    names are shortened with a hash."""
    if len(parent) + len(suffix) <= _CHILD_NAME_LIMIT:
        return parent + suffix
    digest = hashlib.md5(parent.encode(), usedforsecurity=False).hexdigest()
    return parent[: _CHILD_NAME_LIMIT - len(digest) - len(suffix)] + digest + suffix
