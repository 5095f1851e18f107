"""What a claim says, and whether another installation's claim is alive. Values only; no I/O and no clock.

A claim is a Lease: `holderIdentity` is the id of the installation that serves a namespace, or all of them. Whoever may write
Leases in a namespace can plant one. Its times are therefore evidence only against it: a claim is alive as long as this process
sees it change.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

from inferrun import wellknown
from inferrun.kube.lease_record import timestamp
from inferrun.kube.objects import Object
from inferrun.timestamps import parse_foreign

NAME: Final = "inferrun-installation"
"""Name of the Lease."""

CLUSTER_PLACE: Final = "kube-system"
"""Namespace of the claim of an installation that serves all namespaces."""

FIX: Final = "set watchNamespace of one of the two releases to other namespaces, or uninstall one"
"""For two installations that are configured to serve the same namespace."""

ANNOTATION_EXCEPT: Final = f"{wellknown.DOMAIN}/except-namespaces"
"""On the claim to all namespaces: those that it leaves to others, separated by commas."""

HOLDER_LIMIT: Final = 128
"""Characters of a holder that are read. Users can write megabytes; the id of an installation is the value of a label."""

FORGOTTEN_SECONDS: Final = 600.0
"""A claim that says it was renewed longer ago is dead: clocks of one cluster do not differ that much."""


@dataclass(frozen=True)
class ClaimTiming:
    """Seconds."""

    duration: float = 15.0
    """How long after its last change a claim is dead, so that another installation takes the namespaces over."""
    renew: float = 4.0
    """How often claims are read, and one's own renewed."""
    request: float = 3.0
    """The longest that one request may take."""
    retry: float = 0.5
    """The pause after a round in which a claim could not be read or written."""


@dataclass(frozen=True)
class Claim:
    """What the Lease of a place says; without a holder, it is free."""

    holder: str = ""
    renewed: str = ""
    excepted: frozenset[str] = frozenset()

    @classmethod
    def of(cls, lease: Object) -> Self:
        """The claim in a stored Lease."""
        spec, metadata = lease.get("spec") or {}, lease["metadata"]
        annotations = (metadata.get("annotations") or {}) if metadata.get("namespace") == CLUSTER_PLACE else {}
        names = str(annotations.get(ANNOTATION_EXCEPT) or "").split(",")
        return cls(
            holder=str(spec.get("holderIdentity") or "")[:HOLDER_LIMIT],
            renewed=str(spec.get("renewTime") or ""),
            excepted=frozenset(name for name in names if name),
        )

    def is_older_than(self, seconds: float, *, today: datetime) -> bool:
        """Whether it says that it was renewed longer ago; what it says may be wrong."""
        renewed = parse_foreign(self.renewed)
        return renewed is not None and (today - renewed).total_seconds() > seconds

    def to_lease(self, *, version: str | None, duration: float) -> Object:
        """The Lease to create, or the patch of the one that has this resourceVersion."""
        metadata: Object = {"annotations": {ANNOTATION_EXCEPT: ",".join(sorted(self.excepted)) or None}}
        metadata |= {"resourceVersion": version} if version is not None else {"name": NAME}
        if version is None and not self.excepted:
            del metadata["annotations"]
        spec = {
            "holderIdentity": self.holder or None,
            "renewTime": self.renewed or None,
            "leaseDurationSeconds": int(duration),
        }
        return {"metadata": metadata, "spec": spec}


def renewal(holder: str, *, excepted: frozenset[str], now: datetime) -> Claim:
    """The claim that its holder writes now."""
    return Claim(holder, timestamp(now), excepted)


@dataclass(frozen=True)
class _Sighting:
    claim: Claim
    changed: float


class Sightings:
    """When each claim was last seen to change. Times are those of the process' own monotonic clock."""

    def __init__(self, *, own: str, duration: float) -> None:
        self._own = own
        self._duration = duration
        self._seen: dict[str, _Sighting] = {}

    def observe(self, place: str, claim: Claim | None, *, now: float, today: datetime) -> str:
        """The other installation that serves the place; empty if it is free or this installation's own.

        A claim that was deleted is remembered: its holder, if it is alive, is about to write it again.
        """
        known = self._seen.get(place)
        if claim is None:
            if known is None or now - known.changed >= self._duration:
                self._seen.pop(place, None)
                return ""
            return self._other(known.claim.holder)
        if known is None or known.claim != claim:
            is_forgotten = known is None and claim.is_older_than(FORGOTTEN_SECONDS, today=today)
            self._seen[place] = known = _Sighting(claim, now - self._duration if is_forgotten else now)
        is_alive = bool(claim.holder) and now - known.changed < self._duration
        return self._other(claim.holder) if is_alive else ""

    def unchanged(self, place: str, *, now: float) -> float:
        """For how long the claim has been the same."""
        known = self._seen.get(place)
        return now - known.changed if known is not None else 0.0

    def places(self) -> list[str]:
        """Where claims were seen."""
        return list(self._seen)

    def _other(self, holder: str) -> str:
        return holder if holder != self._own else ""
