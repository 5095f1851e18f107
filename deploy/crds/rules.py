"""What a CEL rule of a CRD is, and how values become CEL.

Every message holds the field's JSON name, the value and what is allowed. Rules on a spec stand at `.spec` or below,
where the API server skips them while nothing changes, so that an object stored before a rule existed stays writable at
`/status`; at the root stand transition rules only. A rule on `.status` alone would let `status: null` pass.
"""

from dataclasses import dataclass
from typing import Any, Final

ROOT: Final = ""
"""The path of the resource itself."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One CEL rule. `message` is a CEL expression that gives text; `field` is a path below the rule's node."""

    holds: str
    message: str
    field: str | None = None

    # Any: a CRD is a tree of anything
    def to_manifest(self) -> dict[str, Any]:
        """The entry of `x-kubernetes-validations`."""
        entry: dict[str, Any] = {"rule": self.holds, "messageExpression": self.message}
        if self.field is not None:
            entry["fieldPath"] = self.field
        return entry


def text(value: str) -> str:
    """`value` as a CEL string."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def either(*names: str) -> str:
    """`names` as a CEL list."""
    return "[" + ", ".join(text(name) for name in names) + "]"


def unchanged(path: str) -> str:
    """CEL: the field at `path` below a root is as it was, set or unset. (The API server's cost estimate knows the size
    of a field, but not of an optional, so `.?field == .?field` would be refused for strings.)
    """
    return f"has(self.{path}) == has(oldSelf.{path}) && (!has(self.{path}) || self.{path} == oldSelf.{path})"
