"""Checks whether an installed CustomResourceDefinition is compatible with this version. Pure.

The version must be served with its status subresource. The schema must contain every field of the
models: it may be an old one that no release manages. And it must have the rule that protects
outcomes: the definitions of the Krateo controller have the same names but no such rule.
"""

from collections.abc import Iterator
from typing import Final

from pydantic import BaseModel

from inferrun import wellknown
from inferrun.cli.findings import Finding, ok, problem
from inferrun.fields.resource_model import model_in
from inferrun.kube.objects import Object
from inferrun.resources import (
    InferenceConfigSpec,
    InferenceConfigStatus,
    InferenceRunSpec,
    InferenceRunStatus,
)

MODELS: Final[dict[str, tuple[type[BaseModel], type[BaseModel]]]] = {
    f"{wellknown.CONFIG_PLURAL}.{wellknown.GROUP}": (InferenceConfigSpec, InferenceConfigStatus),
    f"{wellknown.RUN_PLURAL}.{wellknown.GROUP}": (InferenceRunSpec, InferenceRunStatus),
}
"""The models of spec and status of each definition, by its name."""

SHOWN_FIELDS: Final = 5

FIX: Final = (
    "helm upgrade with the chart of this version and --take-ownership, or without Helm, in the chart's directory:\n"
    "kubectl apply --server-side --force-conflicts -f definitions/   (existing objects are kept)"
)


def judge_definition(name: str, stored: Object | None) -> Finding:
    """The finding about a definition; `stored` is None if it does not exist."""
    what = f"definition {name}"
    wrong = "it is not installed" if stored is None else _incompatibility(name, stored)
    return problem(what, wrong, fix=FIX) if wrong else ok(what, "installed and current")


def _incompatibility(name: str, stored: Object) -> str:
    version = next(
        (entry for entry in stored["spec"]["versions"] if entry["name"] == wellknown.VERSION), None
    )
    if version is None or not version.get("served"):
        return f"it does not serve version {wellknown.VERSION}"
    conditions = stored.get("status", {}).get("conditions") or []
    if not any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
        refused = "; ".join(
            str(one.get("message", "")) for one in conditions if one["status"] != "True"
        )
        return f"the API server does not serve it: {refused or 'no reason given'}"
    root = version.get("schema", {}).get("openAPIV3Schema", {})
    if missing := missing_fields(name, root):
        more = f" and {len(missing) - SHOWN_FIELDS} more" if len(missing) > SHOWN_FIELDS else ""
        return f"it belongs to another version and lacks {', '.join(missing[:SHOWN_FIELDS])}{more}"
    if "status" not in version.get("subresources", {}):
        return "it has no status subresource"
    if name.startswith(wellknown.RUN_PLURAL) and not root.get("x-kubernetes-validations"):
        return "it lacks the rule that protects the outcome of a run"
    return ""


def missing_fields(name: str, root: Object) -> list[str]:
    """The fields of the models that are missing in the schema of a definition, such as
    spec.pendingTimeoutSeconds."""
    spec, status = MODELS[name]
    parts = root.get("properties", {})
    return [
        *_missing(spec, parts.get("spec", {}), "spec"),
        *_missing(status, parts.get("status", {}), "status"),
    ]


def _missing(model: type[BaseModel], schema: Object, path: str) -> Iterator[str]:
    known = schema.get("properties", {})
    for name, field in model.model_fields.items():
        place = f"{path}.{field.alias or name}"
        below = known.get(field.alias or name)
        if below is None:
            yield place
        if (inner := model_in(field.annotation)) is not None:
            yield from _missing(inner, (below or {}).get("items", below or {}), place)
