"""Rows for the settings of the three programs, from the documentation strings under their
fields."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Final

from pydantic import BaseModel

from control.settings import ControlSettings
from deploy.crds.schema import field_docs
from inferrun.run_defaults import Defaults
from inferrun_runner.settings import Settings, variable_of
from tools.reference.markdown import Row, code, sentence

_VARIABLE: Final = re.compile(r"^([A-Z][A-Z_]+)((?:, or| or)?[^:]*): (.*)$", re.DOTALL)


def operator_rows() -> Iterator[Row]:
    """The keys of the ConfigMap `inferrun-config`."""
    docs = field_docs(Defaults)
    for name, field in Defaults.model_fields.items():
        key = field.alias or name
        yield f"`{key}`", code(field.default), docs[key]


def runner_rows(model: type[BaseModel] = Settings) -> Iterator[Row]:
    """The variables that the runner reads; a field that is a model stands for the variables of its
    fields."""
    docs = field_docs(model)
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from runner_rows(field.annotation)
            continue
        variable = variable_of(name)
        default = "none" if field.default is None else code(field.default)
        yield f"`{variable}`", default, docs[name]


def environment_rows() -> Iterator[Row]:
    """The variables that shim and worker read."""
    for text in _docs_of(ControlSettings):
        found = _VARIABLE.match(text)
        if found is not None:
            name, rest, meaning = found.groups()
            otherwise = rest.strip(", ").removeprefix("or ")
            yield f"`{name}`", sentence(meaning) + (f" Default: {otherwise}." if otherwise else "")


def _docs_of(settings: type) -> Iterator[str]:
    """The strings under a class's fields, on one line each."""
    body = ast.parse(textwrap.dedent(inspect.getsource(settings))).body[0]
    for statement in getattr(body, "body", ())[1:]:
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            yield " ".join(str(statement.value.value).split())
