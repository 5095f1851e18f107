"""The ends of Pods that the shim has seen, on their way to the worker that judges them.

A Pod that is stopped or evicted takes along how it ended, unless somebody watches. The shim therefore sends what it has seen
with the signal `ended`. Other programs may send signals through Temporal, too, so it signs the text with the key of its process.
"""

import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, replace
from typing import Final

from pydantic import TypeAdapter, ValidationError

from activities.judging.pod_end import PodEnd
from activities.objects.signing_key import SigningKey, signer_of
from workflows.signals import MAX_ENDS_LENGTH

MAX_ENDS: Final = 100
"""The ends that are sent, the latest ones: about 500 bytes each without their messages."""

IsSigner = Callable[[str], Awaitable[bool]]
"""Whether a public key is that of a process of the installation. May raise KubeError."""

_ENDS: Final = TypeAdapter(tuple[PodEnd, ...])


async def read_ends(text: str, *, job_uid: str, is_signer: IsSigner) -> tuple[PodEnd, ...]:
    """What `write_ends` wrote for this Job; empty if no process of ours did, because anybody may have a key."""
    signature, _, statement = text.partition(" ")
    signer = signer_of(signature, statement.encode())
    try:
        ends = _ENDS.validate_json(statement) if signer else ()
    except ValidationError:
        return ()
    is_ours = bool(ends) and all(end.job_uid == job_uid for end in ends) and await is_signer(signer)
    return ends if is_ours else ()


async def nobody(_signer: str) -> bool:
    """Trust no key."""
    return False


def write_ends(ends: Iterable[PodEnd], *, key: SigningKey) -> str:
    """The signed ends of a Job's Pods, as far as they fit: first without the messages that can be read from the cluster, then
    without any. Empty if there are none.
    """
    latest = tuple(ends)[-MAX_ENDS:]
    for kept in (
        latest,
        [end.without_message() for end in latest],
        [replace(end, message="") for end in latest],
    ):
        statement = json.dumps([asdict(end) for end in kept], separators=(",", ":"))
        text = f"{key.sign(statement.encode())} {statement}"
        if kept and len(text) <= MAX_ENDS_LENGTH:
            return text
    return ""
