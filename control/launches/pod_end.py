"""How a Pod ended that may no longer exist, in a few hundred bytes. Pure.

The end of a Pod that is stopped or evicted is lost with the Pod, unless somebody watches. The shim
therefore sends the ends of Pods with the signal `ended`. Other programs may send signals through
Temporal, too, so it signs the text with its key.
"""

import json
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import asdict, dataclass, replace
from typing import Final, Self

from pydantic import TypeAdapter, ValidationError

from control.trust.identity import SigningKey, signer_of
from inferrun.exitcodes import ExitCode
from inferrun.kube.objects import Object, condition_of, controller_of, status_of
from inferrun.launches import pod_state
from inferrun.launches.manifests import CONTAINER
from inferrun.launches.pod_shape import KEPT_SHAPE, shape_of_pod
from inferrun.text import one_line
from workflows.signals import MAX_ENDS_LENGTH

MAX_ENDS: Final = 100
"""The ends that are sent, the latest ones: about 500 bytes each without their messages."""

IsSigner = Callable[[str], Awaitable[bool]]
"""Whether a public key is that of a process of the installation. May raise KubeError."""

INIT_MESSAGE: Final = 300
"""Characters that are kept of what an init container said."""

EARLIER = "1970-01-01T00:00:00Z"
"""When a Pod was deleted whose container ended at an unknown time."""


@dataclass(frozen=True, slots=True)
class PodEnd:
    """The end of a Pod that the caches no longer hold. `exit_code` is None if nobody saw how its
    container ended."""

    pod_uid: str
    pod_name: str
    job_uid: str
    phase: str = ""
    reason: str = ""
    """The reason of the Pod: `DeadlineExceeded` if it reached its own time limit."""
    exit_code: int | None = None
    exit_reason: str = ""
    """The reason of the container: `OOMKilled`, for instance."""
    started_at: str | None = None
    finished_at: str | None = None
    is_disrupted: bool = False
    disruption_reason: str = ""
    disruption_message: str = ""
    node_name: str = ""
    memory_limit: str = ""
    failed_init: tuple[str, int, str, str] | None = None
    """Name, exit code, reason and message of the init container because of which no other container
    started."""

    shape: str = ""
    """What the Pod executed (`inferrun.launches.pod_shape`)."""

    message: str = ""
    """The termination message; see `without_message`."""
    is_deleted: bool = False
    """Whether the Pod was being deleted: nobody will be able to read its end from the cluster."""
    was_removed: bool = False
    """Whether its deletion was requested before its container had ended."""

    @classmethod
    def of_pod(cls, pod: Object) -> Self:
        """The end of a Pod that is terminal, or that was deleted as it is."""
        metadata, end = pod["metadata"], pod_state.container_end(pod)
        disruption = condition_of(pod, "DisruptionTarget") or {}
        init = pod_state.failed_init(pod) if end is None else None
        return cls(
            pod_uid=metadata["uid"],
            pod_name=metadata["name"],
            job_uid=controller_of(pod) or "",
            phase=sys.intern(pod_state.phase(pod)),
            reason=sys.intern(str(status_of(pod).get("reason") or "")),
            exit_code=end.exit_code if end is not None else None,
            exit_reason=sys.intern(end.reason) if end is not None else "",
            started_at=pod_state.started_at(pod),
            finished_at=end.finished_at if end is not None else None,
            is_disrupted=pod_state.is_disrupted(pod)
            and (end is None or end.exit_code != ExitCode.DONE),
            shape=shape_of_pod(pod),
            disruption_reason=sys.intern(str(disruption.get("reason", ""))),
            disruption_message=one_line(str(disruption.get("message", ""))),
            node_name=sys.intern(pod_state.node_of(pod)),
            memory_limit=sys.intern(pod_state.memory_limit(pod)),
            failed_init=_init_end(init) if init is not None else None,
            message=end.message if end is not None else "",
            is_deleted=bool(metadata.get("deletionTimestamp")),
            was_removed=pod_state.was_removed(pod),
        )

    def without_message(self) -> Self:
        """The end in less memory, if its message can be read from the cluster."""
        return self if self.is_deleted else replace(self, message="")

    def as_pod(self) -> Object:
        """The Pod as far as a verdict needs it."""
        terminated = {
            "exitCode": self.exit_code,
            "reason": self.exit_reason,
            "message": self.message,
            "startedAt": self.started_at,
            "finishedAt": self.finished_at,
        }
        running = {"running": {"startedAt": self.started_at}} if self.started_at is not None else {}
        state = {"terminated": terminated} if self.exit_code is not None else running
        disruption = {"reason": self.disruption_reason, "message": self.disruption_message}
        conditions = (
            [{"type": "DisruptionTarget", "status": "True", **disruption}]
            if self.is_disrupted
            else []
        )
        is_over = self.exit_code is not None or self.phase == "Failed"
        deleted = (
            {"deletionTimestamp": self.finished_at or EARLIER}
            if self.was_removed and is_over
            else {}
        )
        limits = (
            {"resources": {"limits": {"memory": self.memory_limit}}} if self.memory_limit else {}
        )
        status = {
            "containerStatuses": [{"name": CONTAINER, "state": state, **limits}],
            "conditions": conditions,
        }
        if self.failed_init is not None:
            name, code, why, message = self.failed_init
            ended = {"exitCode": code, "reason": why, "message": message}
            status["initContainerStatuses"] = [{"name": name, "state": {"terminated": ended}}]
        return {
            "metadata": {
                "name": self.pod_name,
                "uid": self.pod_uid,
                "creationTimestamp": self.started_at or "",
                KEPT_SHAPE: self.shape,
                **deleted,
            },
            "spec": {"nodeName": self.node_name},
            "status": {"phase": self.phase, "reason": self.reason, **status},
        }


def _init_end(status: Object) -> tuple[str, int, str, str]:
    ended = status["state"]["terminated"]
    message = one_line(str(ended.get("message") or ""), limit=INIT_MESSAGE)
    return (
        str(status.get("name", "")),
        int(ended["exitCode"]),
        str(ended.get("reason") or ""),
        message,
    )


_ENDS: Final = TypeAdapter(tuple[PodEnd, ...])


async def read_ends(text: str, *, job_uid: str, is_signer: IsSigner) -> tuple[PodEnd, ...]:
    """What `write_ends` wrote for this Job; empty if no process of ours did, because anybody may
    have a key."""
    signature, _, statement = text.partition(" ")
    signer = signer_of(signature, statement.encode())
    try:
        ends = _ENDS.validate_json(statement) if signer else ()
    except ValidationError:
        return ()
    is_ours = bool(ends) and all(end.job_uid == job_uid for end in ends) and await is_signer(signer)
    return ends if is_ours else ()


def write_ends(ends: Iterable[PodEnd], *, key: SigningKey) -> str:
    """The signed ends of a Job's Pods, as far as they fit: first without the messages that can be
    read from the cluster, then without any. Empty without ends.
    """
    latest = tuple(ends)[-MAX_ENDS:]
    for kept in (
        latest,
        [end.without_message() for end in latest],
        [replace(end, message="", failed_init=None) for end in latest],
    ):
        statement = json.dumps([asdict(end) for end in kept], separators=(",", ":"))
        text = f"{key.sign(statement.encode())} {statement}"
        if kept and len(text) <= MAX_ENDS_LENGTH:
            return text
    return ""
