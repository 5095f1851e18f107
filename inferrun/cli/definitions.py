"""Whether an installed CustomResourceDefinition is one that this version can work with. Pure.

What is compared is what acts: that the version is served with its status subresource, that every field of the models is
in its schema (Helm never upgrades definitions, so an old one may have stayed), and that the rule which freezes an outcome
is there (the definitions of the Krateo controller have the same names and no such rule).
"""

import types
import typing
from collections.abc import Iterator
from typing import Final

from pydantic import BaseModel

from inferrun import wellknown
from inferrun.cli.findings import Finding, ok, problem
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
"""Each definition's name, with the models of its spec and status."""

WITH_RULES: Final = f"{wellknown.RUN_PLURAL}.{wellknown.GROUP}"
SHOWN_FIELDS: Final = 5

CURE: Final = (
    "kubectl apply --server-side --force-conflicts -f crds/   (in the folder of the chart; stored objects stay)"
)


def judge_definition(name: str, stored: Object | None) -> Finding:
    """The finding on the definition of that name; `stored` is None where there is none."""
    what = f"definition {name}"
    wrong = "it is not installed" if stored is None else _what_is_wrong(name, stored)
    return problem(what, wrong, cure=CURE) if wrong else ok(what, "installed and current")


def _what_is_wrong(name: str, stored: Object) -> str:
    """Why this version cannot work with it; empty where it can."""
    version = next((entry for entry in stored["spec"]["versions"] if entry["name"] == wellknown.VERSION), None)
    if version is None or not version.get("served"):
        return f"it does not serve version {wellknown.VERSION}"
    if not _is_established(stored):
        return f"the API server does not serve it: {_refusal(stored)}"
    root = version.get("schema", {}).get("openAPIV3Schema", {})
    if missing := missing_fields(name, root):
        more = f" and {len(missing) - SHOWN_FIELDS} more" if len(missing) > SHOWN_FIELDS else ""
        return f"it is of another version: {', '.join(missing[:SHOWN_FIELDS])}{more} are not in it"
    if "status" not in version.get("subresources", {}):
        return "it has no status subresource"
    if name == WITH_RULES and not root.get("x-kubernetes-validations"):
        return "it has no rule that keeps an outcome from being changed"
    return ""


def missing_fields(name: str, root: Object) -> list[str]:
    """The fields of this version's models that a definition's schema lacks, such as spec.pendingTimeoutSeconds."""
    found = set(_schema_paths(root))
    wanted = [
        f"{part}.{path}" for part, model in zip(("spec", "status"), MODELS[name], strict=True) for path in _paths(model)
    ]
    return [path for path in wanted if path not in found]


def _paths(model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        alias = field.alias or name
        yield alias
        for inner in _models_in(field.annotation):
            yield from (f"{alias}.{path}" for path in _paths(inner))


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    """The models in `Model`, `Model | None` and `tuple[Model, ...]`; what is free-form ends the search."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        return
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, tuple, typing.Annotated):
        for part in typing.get_args(annotation):
            yield from _models_in(part)


def _schema_paths(schema: Object) -> Iterator[str]:
    for name, inner in schema.get("properties", {}).items():
        yield name
        below = inner.get("items", inner)
        yield from (f"{name}.{path}" for path in _schema_paths(below))


def _is_established(stored: Object) -> bool:
    return any(
        condition["type"] == "Established" and condition["status"] == "True" for condition in _conditions(stored)
    )


def _refusal(stored: Object) -> str:
    wrong = [condition for condition in _conditions(stored) if condition["status"] != "True"]
    return "; ".join(str(condition.get("message", "")) for condition in wrong) or "it says nothing of why"


def _conditions(stored: Object) -> list[Object]:
    conditions: list[Object] = stored.get("status", {}).get("conditions") or []
    return conditions
