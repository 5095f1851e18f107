"""Rows for the fields of the two resources, from the generated definitions."""

from collections.abc import Iterable, Iterator
from typing import Final

from deploy.crds.schema import Schema
from tools.reference.markdown import Row

OLD_PLACEMENT: Final = ("modelName", "modelUrl", "modelVersion", "modelInputName")
"""Fields directly under the spec of a config that are the same as those under `kserve`; the page
says so."""

_TYPES: Final = {"string": "string", "integer": "integer", "boolean": "boolean"}


def rows(definition: Schema, part: str) -> Iterator[Row]:
    """One row for each field below `spec` or `status`; an object without a description has rows for
    its fields only."""
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"][part]
    shown = {
        name: child for name, child in schema["properties"].items() if name not in OLD_PLACEMENT
    }
    yield from _below(shown, required=schema.get("required", ()), prefix="")


def members(schema: Schema) -> Iterator[Row]:
    """One row for each member of a storage object."""
    yield from _below(schema["properties"], required=schema.get("required", ()), prefix="")


def _below(properties: dict[str, Schema], *, required: Iterable[str], prefix: str) -> Iterator[Row]:
    for name, schema in properties.items():
        path = f"{prefix}{name}"
        if path == "storage.output":
            continue  # the same as the input
        items = schema.get("items", {})
        fields = schema.get("properties") or items.get("properties") or {}
        description = schema.get("description", "")
        if (description or not fields) and path != "storage.input":
            kind = _type_of(schema) + (", required" if name in required else "")
            shown = path.replace("storage.input", "storage.{input,output}")
            yield f"`{shown}`", kind, description
        if schema.get("properties"):
            yield from _below(fields, required=schema.get("required", ()), prefix=f"{path}.")
        elif fields:
            yield from _below(fields, required=items.get("required", ()), prefix=f"{path}[].")


def _type_of(schema: Schema) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    match schema.get("type"):
        case "array":
            return f"list of {schema['items'].get('type', 'object')}s"
        case "object":
            is_text = schema.get("additionalProperties", {}).get("type") == "string"
            return "map of strings" if is_text else "object" if "properties" in schema else "map"
        case "string" if schema.get("format") == "date-time":
            return "time"
        case kind:
            return _TYPES.get(kind or "", "any")
