"""The content of a Lease and the decision who may take it. Values only; no I/O and no clock.

A record's timestamps are for people. They come from another machine's clock and are never compared with ours: a candidate
measures, with its own monotonic clock, how long the record has not changed.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

from inferrun.kube.objects import Object


@dataclass(frozen=True, kw_only=True)
class LeaseTiming:
    """Seconds. With these defaults a killed leader is replaced within 8 s and a stopped one within 1 s: the ends that it did not
    report are to be in the statuses within 10 s, on a busy machine, too.
    """

    duration: int = 7
    """How long a candidate waits after the record last changed. Must exceed `give_up` by more than a slow request takes."""
    renew: float = 1.5
    """How often the leader renews."""
    give_up: float = 5.0
    """How long after sending its last successful renewal a leader stops leading: before anyone else may take over."""
    look: float = 0.5
    """How often a candidate reads the record; a change is noticed this late, so takeover takes up to `duration + look`."""
    request: float = 2.0
    """The longest that one request may take: less than `give_up`, so that a dead connection is replaced in time."""
    retry: float = 0.5
    """The pause after a renewal that failed."""

    def __post_init__(self) -> None:
        if not self.renew < self.give_up < self.duration:
            raise ValueError(f"needs renew < give_up < duration, not {self.renew}, {self.give_up}, {self.duration}")


@dataclass(frozen=True, kw_only=True)
class LeaseRecord:
    """What a Lease says: `acquired` identifies the term of `holder`; an empty holder means released."""

    holder: str = ""
    acquired: str = ""
    renewed: str = ""
    duration: int = 0
    transitions: int = 0

    @classmethod
    def of(cls, lease: Object) -> "LeaseRecord":
        """The record of a stored Lease; missing fields have their defaults."""
        spec = lease.get("spec") or {}
        return cls(
            holder=spec.get("holderIdentity") or "",
            acquired=spec.get("acquireTime") or "",
            renewed=spec.get("renewTime") or "",
            duration=spec.get("leaseDurationSeconds") or 0,
            transitions=spec.get("leaseTransitions") or 0,
        )

    def to_spec(self) -> Object:
        """The Lease's spec, as a merge patch: null removes a field."""
        return {
            "holderIdentity": self.holder or None,
            "acquireTime": self.acquired or None,
            "renewTime": self.renewed or None,
            "leaseDurationSeconds": self.duration or None,
            "leaseTransitions": self.transitions,
        }


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Who wants to lead: `term` is the `acquired` of its latest term, `is_new` if the process has not led before."""

    identity: str
    term: str = ""
    is_new: bool = True

    def wait_for(self, record: LeaseRecord, *, unchanged: float, duration: int) -> float:
        """Seconds until it may take the lease; `unchanged` is how long it has seen this record, `duration` the default.

        A released lease is free at once. So is one held by this identity if the process has restarted, or if the term is
        its own. Another process under the same identity, which should not exist, has to be waited for like any other.
        """
        is_own = record.holder == self.identity and (self.is_new or record.acquired == self.term)
        if not record.holder or is_own:
            return 0.0
        return max(0.0, (record.duration or duration) - unchanged)


def next_term(record: LeaseRecord, *, identity: str, duration: int, now: datetime) -> LeaseRecord:
    """The record with which `identity` begins a term."""
    moment = timestamp(now)
    changes_hands = record.holder != identity
    return LeaseRecord(
        holder=identity,
        acquired=moment,
        renewed=moment,
        duration=duration,
        transitions=record.transitions + changes_hands,
    )


def timestamp(now: datetime) -> str:
    """A MicroTime as the API server stores it."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
