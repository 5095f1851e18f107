"""Converts a pydantic model to a structural OpenAPI v3 schema, as the API server requires it.

It assumes models of `inferrun.resources`: camelCase aliases, and the string under a field as its
documentation. The API server does not support `$ref`, null types and titles, and requires a maximum
size for everything that a CEL rule can reach. A string, list or map without a maximum is rejected
here rather than by the API server.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel

from deploy.crds.rules import form_rule
from inferrun.stores.declaration import FORM

Schema = dict[str, Any]  # Any: a JSON schema is an arbitrary tree

KEPT_KEYWORDS = (
    "type", "format", "pattern", "enum", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
    "maxProperties", "required",
)  # fmt: skip
UNBOUNDED_FORMATS = frozenset({"date-time"})


class NotStructural(Exception):
    """A model cannot be expressed as a structural schema; the message names the field."""


def structural(model: type[BaseModel]) -> Schema:
    """The structural schema of `model`, with descriptions. Raises NotStructural."""
    generated = model.model_json_schema(by_alias=True, mode="validation")
    translation = _Translation(
        definitions=generated.pop("$defs", {}),
        docs={name: field_docs(part) for name, part in models_below(model).items()},
    )
    return translation.node(generated, path=model.__name__, owner=model.__name__)


def models_below(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """`model` and all models that its fields refer to, by class name."""
    found: dict[str, type[BaseModel]] = {}
    waiting = [model]
    while waiting:
        current = waiting.pop()
        if current.__name__ not in found:
            found[current.__name__] = current
            for field in current.model_fields.values():
                waiting.extend(_models_in(field.annotation))
    return found


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models_in(argument)


@cache
def field_docs(model: type[BaseModel]) -> Mapping[str, str]:
    """The documentation of each field of `model`, by the field's JSON name. The source is parsed
    once: parsing is slow, and Python 3.11 sometimes fails at it if other code runs in between
    (SystemError, python/cpython#106905).
    """
    body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    if not isinstance(body, ast.ClassDef):
        raise NotStructural(f"{model.__name__} is not a class")
    bases = (
        base
        for base in reversed(model.__bases__)
        if issubclass(base, BaseModel) and base is not BaseModel
    )
    docs: dict[str, str] = {name: text for base in bases for name, text in field_docs(base).items()}
    for statement, following in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and statement.target.id in model.model_fields
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
            and isinstance(following.value.value, str)
        ):
            field = model.model_fields[statement.target.id]
            docs[field.alias or statement.target.id] = paragraph(following.value.value)
    return docs


def paragraph(text: str) -> str:
    """`text` on one line."""
    return " ".join(text.split())


@dataclass(frozen=True, kw_only=True)
class _Translation:
    """The conversion of one JSON schema from pydantic, with its `$defs` and the documentation of
    all fields."""

    definitions: Schema
    docs: Mapping[str, Mapping[str, str]]

    def node(self, source: Schema, *, path: str, owner: str) -> Schema:
        """The structural schema of `source`, which is located at `path` and belongs to the model
        `owner`."""
        source, owner = self._resolved(source, owner=owner)
        if {choice.get("type") for choice in source.get("anyOf", ())} - {"null"} == {
            "integer",
            "string",
        }:
            limits = {
                key: value
                for choice in source["anyOf"]
                for key, value in choice.items()
                if key == "maxLength"
            }
            return {
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "x-kubernetes-int-or-string": True,
            } | limits
        node: Schema = (
            {"description": paragraph(source["description"])} if "description" in source else {}
        )
        node |= {keyword: source[keyword] for keyword in KEPT_KEYWORDS if keyword in source}
        if node.get("type") == "integer":
            node["format"] = "int64"
        if FORM in source:
            node["x-kubernetes-validations"] = [
                form_rule(path.rpartition(".")[2], **source[FORM]).to_manifest()
            ]
        if "properties" in source:
            node["properties"] = {}
            for name, child in source["properties"].items():
                below = self.node(child, path=f"{path}.{name}", owner=owner)
                description = self.docs[owner].get(name, below.pop("description", None))
                if description is None:
                    raise NotStructural(f"{path}.{name} has no description")
                node["properties"][name] = {"description": description} | below
        for keyword in ("items", "additionalProperties"):
            if not isinstance(source.get(keyword), dict):
                continue
            if self._resolved(source[keyword], owner="")[0] != {}:
                node[keyword] = self.node(source[keyword], path=f"{path}[]", owner=owner)
            elif keyword == "additionalProperties":
                # an empty schema is not allowed in a CRD
                node["x-kubernetes-preserve-unknown-fields"] = True
        _check_bounds(node, path=path)
        return node

    def _resolved(self, source: Schema, *, owner: str) -> tuple[Schema, str]:
        """`source` without references and null types, and the model that it belongs to."""
        if "$ref" in source:
            name = source["$ref"].rsplit("/", 1)[-1]
            here = {key: value for key, value in source.items() if key != "$ref"}
            return self._resolved(self.definitions[name] | here, owner=name)
        choices = [choice for choice in source.get("anyOf", ()) if choice.get("type") != "null"]
        if len(choices) == 1:
            outer = {key: value for key, value in source.items() if key not in {"anyOf", "default"}}
            return self._resolved(choices[0] | outer, owner=owner)
        return source, owner


def _check_bounds(node: Schema, *, path: str) -> None:
    match node.get("type"):
        case "string":
            bounded = (
                "maxLength" in node or "enum" in node or node.get("format") in UNBOUNDED_FORMATS
            )
        case "array":
            bounded = "maxItems" in node
        case "object":
            bounded = "properties" in node or "maxProperties" in node
        case "integer" | "boolean":
            bounded = True
        case _:
            raise NotStructural(f"{path} has no type")
    if not bounded:
        raise NotStructural(f"{path} has no maximum")
