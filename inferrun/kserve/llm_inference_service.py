"""The model of an `LLMInferenceService`, with or without a router. Pure.

Its controller never sets `status.address`. It lists addresses; without a router, one of the workload's Service without the
port. An address of a gateway may require the model's qualified name, which it lists.
"""

import hashlib
from datetime import datetime
from typing import Final
from urllib.parse import SplitResult

from inferrun.kserve.answer import Answer, ModelAddress, Needs, Never, NotYet, Other, Others, Stored, Wanted
from inferrun.kserve.status import (
    condition,
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
from inferrun.kserve.urls import base_of, is_internal, model_url, parts_of, service_name, with_port

CONFIGURATION_ERRORS: Final = ("ConfigNotFound", "CombineBaseError", "InvalidRenderedConfig", "RefsInvalid")
"""Reasons of conditions that only an edit of the object or of what it refers to can change."""

_CONFIGURED_BY: Final = ("PresetsCombined", "HTTPRoutesReady", "GatewaysReady", "RouterReady", "Ready")
_SELF_SIGNED: Final = "-kserve-self-signed-certs"
_CHILD_NAME_LIMIT: Final = 63


def resolve_llm_inference_service(item: Stored, wanted: Wanted, others: Others, *, now: datetime) -> Answer:
    """The answer for an LLMInferenceService."""
    closed = stopped(item) or _misconfigured(item) or _not_ready(item) or outdated(item, now=now)
    if closed is not None:
        return closed
    if wanted.model_name and wanted.is_our_runner and (unknown := _unknown_model(item, wanted.model_name)):
        return unknown
    model = wanted.model_name or _served_name(item)
    found = _address(item, model)
    if isinstance(found, NotYet | Never):
        return found
    entry, parts = found
    service = _service(item, entry, parts)
    if service is not None:
        if service not in others:
            return Needs(service)
        if others[service] is None:
            missing = f"its Service {service.name} does not exist; check that KServe's controller is running"
            return NotYet(f"{name_of(item)} is ready, but {missing}", is_other=True)
        parts = with_port(parts, others[service])
    protocol = wanted.protocol or "openai"
    has_own_certificate = parts.scheme == "https" and _is_of_workload(item, entry) and not text(entry, "CACerts")
    return ModelAddress(
        url=model_url(base_of(parts), protocol=protocol, model=_name_at(entry, model)),
        model_name=_name_at(entry, model),
        protocol=protocol,
        generation=number(item, "metadata", "generation") or 0,
        ca_certificates=text(entry, "CACerts"),
        ca_secret=_child_name(text(item, "metadata", "name"), _SELF_SIGNED) if has_own_certificate else "",
    )


def _misconfigured(item: Stored) -> Never | None:
    for kind in _CONFIGURED_BY:
        found = condition(item, kind)
        if text(found, "status") == "False" and text(found, "reason") in CONFIGURATION_ERRORS:
            return Never(
                f"{name_of(item)} has an invalid configuration: {shown(item, kind)}; fix it, then "
                "delete and recreate the run"
            )
    return None


def _not_ready(item: Stored) -> NotYet | None:
    if is_true(item, "Ready"):
        return None
    parts = ("WorkloadsReady", "RouterReady")
    worst = next((kind for kind in parts if condition(item, kind) and not is_true(item, kind)), "Ready")
    return not_ready(item, shown(item, worst), pods="app.kubernetes.io/name")


def _served_name(item: Stored) -> str:
    return text(item, "spec", "model", "name") or text(item, "metadata", "name")


def _adapters(item: Stored) -> tuple[str, ...]:
    return tuple(name for one in items(item, "spec", "model", "lora", "adapters") if (name := text(one, "name")))


def _unknown_model(item: Stored, name: str) -> Never | None:
    """The answer if the config names a model that the object does not serve, for objects that list what they serve."""
    served = (_served_name(item), *_adapters(item))
    listed = {text(model, "name") for entry in items(item, "status", "addresses") for model in items(entry, "models")}
    if name in served or name in listed:
        return None
    return Never(
        f"kserve.modelName is {name!r}, but {name_of(item)} serves {', '.join(served)}; set one of these in the "
        "InferenceConfig, or omit modelName"
    )


def _address(item: Stored, model: str) -> tuple[Stored, SplitResult] | NotYet | Never:
    entries = [one for one in items(item, "status", "addresses") if isinstance(one, dict)]
    if promoted := text(item, "status", "url"):
        entries.append({"url": promoted})
    found = [(entry, parts) for entry in entries if (parts := parts_of(text(entry, "url"))) is not None]
    if not found:
        return NotYet(f"{name_of(item)} is ready, but its status has no address yet; the run starts when it has one")
    return min(found, key=lambda one: (not is_internal(one[1]), _rank(*one, model=model)))


def _rank(entry: Stored, parts: SplitResult, *, model: str) -> int:
    """How well the address suits the model, 0 is best. One without a path routes by qualified names, and only by those it lists."""
    names = [text(one, "name") for one in items(entry, "models")]
    if not names or model in names:
        return 0
    if _name_at(entry, model) != model:
        return 1
    return 2 if parts.path.strip("/") else 3


def _name_at(entry: Stored, model: str) -> str:
    """The name by which the address knows the model: behind some gateways only the one with the namespace."""
    names = [text(one, "name") for one in items(entry, "models")]
    if not names or model in names:
        return model
    return next((name for name in names if name.endswith(f"/models/{model}")), model)


def _is_of_workload(item: Stored, entry: Stored) -> bool:
    """Whether the address is that of the model's own Service, and not of a gateway."""
    return member(entry, "origin") is None and member(item, "spec", "router", "route") is None


def _service(item: Stored, entry: Stored, parts: SplitResult) -> Other | None:
    """The Service behind an address without a port that no gateway produced."""
    if not _is_of_workload(item, entry):
        return None
    namespace = text(item, "metadata", "namespace")
    named = service_name(parts, namespace=namespace)
    return Other("services", namespace, named) if named else None


def _child_name(parent: str, suffix: str) -> str:
    """The name of an object that Knative's and KServe's controllers make for another one: long names are shortened with a hash."""
    if len(parent) + len(suffix) <= _CHILD_NAME_LIMIT:
        return parent + suffix
    digest = hashlib.md5(parent.encode(), usedforsecurity=False).hexdigest()
    return parent[: _CHILD_NAME_LIMIT - len(digest) - len(suffix)] + digest + suffix
