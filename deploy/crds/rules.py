"""CEL rules of a CRD, and the conversion of values to CEL.

Every message contains the field's JSON name, its value and what is allowed. Rules about a spec are
attached to `.spec` or below, where the API server skips them for unchanged values, so that the
status of an object stored before a rule existed can still be updated. Only transition rules are
attached to the root. A rule on `.status` alone would allow `status: null`.
"""

from dataclasses import dataclass
from typing import Any, Final

from inferrun.error_threshold import ALLOWED, PATTERN

ROOT: Final = ""
"""The path of the resource itself."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """A CEL rule. `message` is a CEL expression that evaluates to a string; `field` is a path
    relative to the rule's node."""

    holds: str
    message: str
    field: str | None = None

    # Any: a CRD is an arbitrary JSON tree
    def to_manifest(self) -> dict[str, Any]:
        """The entry of `x-kubernetes-validations`."""
        entry: dict[str, Any] = {"rule": self.holds, "messageExpression": self.message}
        if self.field is not None:
            entry["fieldPath"] = self.field
        return entry


def text(value: str) -> str:
    """`value` as a CEL string literal."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def either(*names: str) -> str:
    """`names` as a CEL list literal."""
    return "[" + ", ".join(text(name) for name in names) + "]"


def form_rule(field: str, *, allowed: str, matches: str, never: str) -> Rule:
    """The rule of a text with a form (`inferrun.stores.declaration.Form`); `field` is its name,
    with [] for an item of a list."""
    parts = [f"self.matches({text(f'^(?:{matches})$')})"] if matches else []
    parts += [f"!self.matches({text(never)})"] if never else []
    name, is_item, _ = field.partition("[]")
    found = text(f"{name} has an item that is invalid; " if is_item else f'{name} is "')
    shown = found if is_item else f"""{found} + self + '"; '"""
    return Rule(holds=" && ".join(parts), message=f"{shown} + {text(allowed)}")


ERROR_THRESHOLD: Final = Rule(
    holds=f"type(self) == int ? self >= 0 && self <= 999999999 : self.matches({text(PATTERN)})",
    message=f"""'errorThreshold is "' + string(self) + '"; allowed is {ALLOWED}'""",
)


def unchanged(path: str) -> str:
    """A CEL expression that is true if the field at `path` below the root has not changed.

    It does not use `.?field == .?field`, because the API server's cost estimate assumes no maximum
    size for an optional string and would reject the rule.
    """
    return f"has(self.{path}) == has(oldSelf.{path}) && (!has(self.{path}) || self.{path} == oldSelf.{path})"
