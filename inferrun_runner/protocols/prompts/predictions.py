"""Predictions with named members: objects in JSON lines, typed columns in tables. pyarrow is
imported only if they are typed."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from inferrun.formats.json_pointer import MISSING, at_pointer, parse_pointer
from inferrun.formats.record_errors import INVALID_PREDICTION
from inferrun.plugins import (
    NO_USAGE,
    ArrowRecords,
    JsonRecords,
    RecordError,
    Records,
    Results,
    TokenUsage,
)
from inferrun_runner.protocols.prompts.pending_rows import PendingRows, Sure, are_sure, sure_members
from inferrun_runner.protocols.prompts.templates import InvalidRecord, json_text

if TYPE_CHECKING:
    import pyarrow

Prediction = Mapping[str, Any]  # Any: JSON

JSON: Final = "json"
"""The form of a value that may be any JSON; in a typed column it is a text."""

# Any: a type of Arrow by its name, JSON, a list with the form of its items, or a mapping of forms
# by names
Form = Any

_SIMPLE: Final = {"string": "string", "integer": "int64", "number": "double", "boolean": "bool"}


def form_of_schema(schema: Any, root: Any = None, *, depth: int = 0) -> Form:  # Any: a JSON schema
    """Return the form of the values of a JSON schema: what it says about types, and JSON where it
    allows several."""
    root = schema if root is None else root
    while (
        isinstance(schema, dict)
        and isinstance(reference := schema.get("$ref"), str)
        and depth < _DEPTH
    ):
        schema, depth = resolved(root, reference), depth + 1
    if not isinstance(schema, dict) or depth >= _DEPTH:
        return JSON
    choices = [one for one in schema.get("anyOf") or () if one != {"type": "null"}]
    if len(choices) == 1:
        return form_of_schema(choices[0], root, depth=depth + 1)
    kind, members, items = schema.get("type"), schema.get("properties"), schema.get("items")
    kinds = [one for one in kind if one != "null"] if isinstance(kind, list) else [kind]
    values = [one for one in schema.get("enum") or () if one is not None]
    if kinds == [None] and values and all(isinstance(one, str) for one in values):
        kinds = ["string"]
    match kinds:
        case ["array"] if isinstance(items, dict):
            return [form_of_schema(items, root, depth=depth + 1)]
        case ["object"] if members and not schema.get("additionalProperties"):
            return {
                name: form_of_schema(one, root, depth=depth + 1) for name, one in members.items()
            }
        case [str(name)]:
            return _SIMPLE.get(name, JSON)
    return JSON


def form_of_output(name: str) -> Form:
    """Return the form of a declared type."""
    from inferrun.formats.result_schema import parse_type  # noqa: PLC0415  imports pyarrow

    return JSON if name == JSON else parse_type(name)


def resolved(schema: Any, reference: str) -> Any:  # Any: a JSON schema
    """Return the part of a schema that a reference names; None if it is elsewhere, or not there.
    Nothing is loaded."""
    document, _, pointer = reference.partition("#")
    try:
        found = None if document else at_pointer(schema, parse_pointer(pointer))
    except ValueError:
        return None
    return None if found is MISSING else found


_DEPTH: Final = 16
"""Levels of a schema, which may contain itself; what is below is JSON."""


class Predictions:
    """Makes results of predictions that have the same members."""

    def __init__(
        self,
        members: Mapping[str, Form],
        *,
        is_checked: bool = False,
        required: Collection[str] = (),
    ) -> None:
        """`is_checked`: values must have the declared types also where the output has none.

        `required`: the members in which null does not stand for a number.
        """
        self.members = members
        self._is_checked = is_checked
        self._required = required
        self._type: pyarrow.DataType | None = None
        self._sure: Sure | None = None

    def predicted(self) -> "pyarrow.DataType":
        """Return the type of a prediction."""
        return _arrow_type(self.members)

    def use_type(self, stored: "pyarrow.DataType") -> None:
        """Make columns of this type."""
        self._type, self._sure = stored, sure_members(stored)

    def results(
        self, found: Sequence[Prediction | RecordError | None], *, usage: TokenUsage = NO_USAGE
    ) -> Results:
        """Return the results of records, each with a prediction or an error."""
        found = [self._with_numbers(one) if isinstance(one, Mapping) else one for one in found]
        errors = {at: one for at, one in enumerate(found) if isinstance(one, RecordError)}
        given = [None if isinstance(one, RecordError) else one for one in found]
        values: Records
        if self._type is not None or self._is_checked:
            values, unfit = self._columns(given, self._type or self.predicted())
            errors = {**unfit, **errors}
        if self._type is None:
            texts = list[bytes]()
            for at, one in enumerate(given):
                try:
                    texts.append(b"null" if at in errors else json_text(one).encode())
                except InvalidRecord as error:
                    texts.append(b"null")
                    errors[at] = RecordError(INVALID_PREDICTION, f"the prediction {error}")
            values = JsonRecords(texts)
        return Results(values, errors, usage)

    def _with_numbers(self, prediction: Prediction) -> Prediction | RecordError:
        """Return the prediction, or its error if NaN, infinity or null stands where a number
        should."""
        for name, form in self.members.items():
            if text := _lacking(prediction.get(name), form if name in self._required else JSON):
                return RecordError(INVALID_PREDICTION, f"the model returned {text} for {name!r}")
        return prediction

    def _columns(
        self, given: Sequence[Prediction | None], kind: "pyarrow.DataType"
    ) -> tuple[Records, dict[int, RecordError]]:
        import pyarrow  # noqa: PLC0415  only typed results pay for its import

        from inferrun.formats.typed_values import array_of_values  # noqa: PLC0415  as above

        fitted = [_fitted(one, self.members) for one in given]
        if self._sure is not None and all(are_sure(one, self._sure) for one in fitted):
            return PendingRows(fitted, kind), {}
        column, misfits = array_of_values(fitted, kind)
        errors = dict[int, RecordError]()
        for at in misfits:
            wrong = (
                one for one in kind if array_of_values([fitted[at].get(one.name)], one.type)[1]
            )
            where = next(
                (f"column {one.name!r} of type {one.type}" for one in wrong), f"the type {kind}"
            )
            errors[at] = RecordError(INVALID_PREDICTION, f"the prediction does not fit {where}")
        return ArrowRecords(pyarrow.record_batch({"prediction": column})), errors


def _lacking(value: Any, form: Form) -> str:  # Any: JSON
    """Return what stands in place of a number: NaN, infinity, or null where the form asks for one;
    empty if nothing does."""
    match value:
        case None:
            return "null" if _is_number(form) else ""
        case float():
            return "" if math.isfinite(value) else str(value)
        case list():
            # The usual embedding, without a call for each value.
            if {float} >= set(map(type, value)) and math.isfinite(sum(value)):
                return ""
            item = form[0] if isinstance(form, list) else getattr(form, "value_type", JSON)
            return next((text for one in value if (text := _lacking(one, item))), "")
        case Mapping():
            return next((text for one in value.values() if (text := _lacking(one, JSON))), "")
    return ""


def _is_number(form: Form) -> bool:
    """Whether values are numbers or booleans."""
    if isinstance(form, (str, list, Mapping)):
        return form in {*_SIMPLE.values(), "float"} - {"string"} if isinstance(form, str) else False
    from pyarrow import types  # noqa: PLC0415  only declared types are those of Arrow

    return bool(
        types.is_integer(form)
        or types.is_floating(form)
        or types.is_decimal(form)
        or types.is_boolean(form)
    )


def _arrow_type(form: Form) -> "pyarrow.DataType":
    import pyarrow  # noqa: PLC0415  as above

    match form:
        case dict() | Mapping():
            return pyarrow.struct(
                [pyarrow.field(name, _arrow_type(one)) for name, one in form.items()]
            )
        case [item]:
            return pyarrow.list_(_arrow_type(item))
        case str():
            return pyarrow.string() if form == JSON else pyarrow.type_for_alias(form)
    return form


def _fitted(value: Any, form: Form) -> Any:  # Any: JSON
    """Return a value as Arrow takes it: JSON as text, and no members that the form does not
    have."""
    match form:
        case _ if value is None:
            return None
        case "json":
            return json_text(value)
        case [item] if isinstance(value, list):
            return [_fitted(one, item) for one in value]
        case Mapping() if isinstance(value, Mapping):
            return {name: _fitted(value.get(name), one) for name, one in form.items()}
    return value
