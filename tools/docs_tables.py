"""Writes the tables of README.md and docs/operations.md from what they are about, or with ``--check`` compares them.

``python -m tools.docs_tables [--check]``, from anywhere. Exit code 1: a table is out of date. A table stands between two comments
that name it, `<!-- table: NAME -->` and `<!-- end of table -->`; what is between them is not edited by hand.
"""

import argparse
import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from deploy.crds.definitions import inference_config, inference_run
from deploy.crds.schema import Schema, field_docs
from inferrun.control.run_defaults import Defaults
from inferrun.control.settings import CommonSettings
from operator_shim.settings import ShimSettings
from worker.settings import WorkerSettings

ROOT: Final = Path(__file__).resolve().parents[1]
FILES: Final = (ROOT / "README.md", ROOT / "docs" / "operations.md")
VALUES: Final = ROOT / "deploy" / "helm" / "inferrun" / "values.yaml"

OLD_PLACEMENT: Final = ("modelName", "modelUrl", "modelVersion", "modelInputName")
"""Fields directly under the spec that stand for those under `kserve`; the text beside the table says so."""

_TABLE: Final = re.compile(r"(<!-- table: ([a-z-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL)
_VALUE: Final = re.compile(r"^( *)([A-Za-z]+):(.*)$")
_VARIABLE: Final = re.compile(r"^([A-Z][A-Z_]+)((?:, or| or)?[^:]*): (.*)$", re.DOTALL)

Row = tuple[str, ...]


def tables() -> dict[str, str]:
    """Every table by name, as Markdown."""
    return {
        "config-fields": _markdown(("field", "type", "meaning"), _field_rows(inference_config())),
        "run-fields": _markdown(("field", "type", "meaning"), _field_rows(inference_run())),
        "chart-values": _markdown(("value", "default", "meaning"), value_rows(VALUES.read_text(encoding="utf-8"))),
        "settings": _markdown(("key", "default", "meaning"), _setting_rows()),
        "environment": _markdown(("variable", "of", "meaning"), environment_rows()),
    }


def _markdown(header: Row, rows: Iterable[Row]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _field_rows(definition: Schema) -> Iterator[Row]:
    spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    shown = {name: schema for name, schema in spec["properties"].items() if name not in OLD_PLACEMENT}
    yield from _below(shown, required=spec.get("required", ()), prefix="")


def _below(properties: dict[str, Schema], *, required: Iterable[str], prefix: str) -> Iterator[Row]:
    """A row for each leaf; a part that has parts of its own is shown by them."""
    for name, schema in properties.items():
        path = f"{prefix}{name}"
        if path == "storage.output":
            continue  # the same as the input
        if schema.get("properties"):
            yield from _below(schema["properties"], required=schema.get("required", ()), prefix=f"{path}.")
            continue
        kind = _type_of(schema) + (", required" if name in required else "")
        yield f"`{path.replace('storage.input', 'storage.{input,output}')}`", kind, schema.get("description", "")


def _type_of(schema: Schema) -> str:
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {schema['items'].get('type', 'objects')}"
    if schema.get("type") == "object":
        values = schema.get("additionalProperties", {}).get("type", "any")
        return "map of text" if values == "string" else "map"
    return {"string": "text", "integer": "whole number", "boolean": "true or false"}.get(schema.get("type", ""), "any")


def value_rows(text: str) -> Iterator[Row]:
    """The chart's values with their defaults and the comments above them."""
    path: list[str] = []
    comments: list[str] = []
    for line in text.splitlines():
        if line.strip().startswith("#"):
            comments.append(line.strip().lstrip("#").strip())
            continue
        found = _VALUE.match(line)
        if found is None:
            comments = []
            continue
        indent, name, default = found.groups()
        path = [*path[: len(indent) // 2], name]
        if default.strip():
            yield f"`{'.'.join(path)}`", f"`{default.strip()}`", " ".join(comments)
        comments = []


def _setting_rows() -> Iterator[Row]:
    docs = field_docs(Defaults)
    for name, field in Defaults.model_fields.items():
        key = field.alias or name
        yield f"`{key}`", _code(field.default), docs[key]


def _code(default: Any) -> str:  # Any: of the field's own type
    """A default as it is typed into the ConfigMap."""
    if isinstance(default, bool):
        return f"`{str(default).lower()}`"
    text = ",".join(default) if isinstance(default, tuple) else str(default)
    return f"`{text}`" if text else "empty"


def environment_rows() -> Iterator[Row]:
    """The variables that the two programs read, from the documentation of their settings."""
    seen: dict[str, tuple[str, str]] = {}
    for owner, settings in (("both", CommonSettings), ("shim", ShimSettings), ("worker", WorkerSettings)):
        for text in _docs_of(settings):
            found = _VARIABLE.match(text)
            if found is None:
                continue
            name, rest, meaning = found.groups()
            otherwise = rest.strip(", ").removeprefix("or ")
            whole = f"{meaning[:1].upper()}{meaning[1:]}" + (f" Default: {otherwise}." if otherwise else "")
            seen[name] = ("both", seen[name][1]) if name in seen else (owner, whole)
    for name, (owner, meaning) in seen.items():
        yield f"`{name}`", owner, meaning


def _docs_of(settings: type) -> Iterator[str]:
    """The strings under a class's fields, on one line each."""
    body = ast.parse(textwrap.dedent(inspect.getsource(settings))).body[0]
    for statement in getattr(body, "body", ())[1:]:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            yield " ".join(str(statement.value.value).split())


def rendered(text: str) -> str:
    """A file's text with its tables as they should be. Raises KeyError for a table that nobody makes."""
    made = tables()
    return _TABLE.sub(lambda found: f"{found[1]}{made[found[2]]}{found[3]}", text)


def main(arguments: list[str] | None = None) -> int:
    """Write or compare; the exit code."""
    parser = argparse.ArgumentParser(description="Generate the documentation's tables.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a table is out of date")
    only_check = parser.parse_args(arguments).check
    stale = [path for path in FILES if rendered(path.read_text(encoding="utf-8")) != path.read_text(encoding="utf-8")]
    for path in stale:
        name = path.relative_to(ROOT)
        if only_check:
            sys.stderr.write(f"{name} has a table that is out of date; run: python -m tools.docs_tables\n")
        else:
            path.write_text(rendered(path.read_text(encoding="utf-8")), encoding="utf-8")
            sys.stdout.write(f"wrote {name}\n")
    return 1 if only_check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
