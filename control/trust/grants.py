"""Whether users of a namespace may refer to an object of another one: what the other namespace's
users have granted.

A grant is an entry of the ConfigMap `inferrun-grants` in the namespace of the object, so that
everybody who may edit that namespace can write it, and nobody else. A key names what is granted,
its value the namespaces to which it is granted, separated by commas or white space:

    InferenceConfig: team-a, team-b      every InferenceConfig of this namespace
    InferenceConfig.iris: team-c         this one

There are no wildcards, as in Gateway API's ReferenceGrant. Without a grant the object itself is
never read, so the answer does not depend on whether it exists. Pure.
"""

import re
from collections.abc import Mapping
from typing import Final

GRANTS: Final = "inferrun-grants"
"""Name of the ConfigMap. It is part of the API."""


def is_granted(data: Mapping[str, str], *, kind: str, from_namespace: str, name: str) -> bool:
    """Whether the entries of the ConfigMap grant a namespace the use of an object."""
    # The entries are searched, not split: one may be a megabyte long.
    listed = re.compile(rf"(?:^|[\s,]){re.escape(from_namespace)}(?:[\s,]|$)")
    return any(listed.search(data.get(key, "")) is not None for key in (kind, f"{kind}.{name}"))


def refusal(*, kind: str, field: str, from_namespace: str, to_namespace: str) -> str:
    """What to tell the user of a reference without a grant. It does not depend on the object."""
    return (
        f"{field} is {to_namespace!r}, which does not grant namespace {from_namespace!r} the use of this {kind}; "
        f"have somebody who may edit {to_namespace!r} add {from_namespace!r} to the key {kind!r} (all of them) or "
        f"'{kind}.<name>' (one) of the ConfigMap {GRANTS!r} there"
    )
