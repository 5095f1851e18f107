"""Rows for labels and annotations, from `inferrun.wellknown`: each constant with the string under
it."""

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise

from inferrun import wellknown
from tools.reference.markdown import Row, sentence


def rows(prefix: str) -> Iterator[Row]:
    """The constants whose names begin with `prefix` (`LABEL_` or `ANNOTATION_`) and that are
    documented."""
    body = ast.parse(inspect.getsource(wellknown)).body
    for statement, following in pairwise(body):
        if not (isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)):
            continue
        name = statement.target.id
        if (
            name.startswith(prefix)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
        ):
            yield f"`{getattr(wellknown, name)}`", sentence(str(following.value.value))
