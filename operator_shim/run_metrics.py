"""Measures runs from what the shim's watch sees of them: how many are in which state, and what has
happened to them.

Only the leader shows anything, so that the figures of several shims can be added up. What happens
is counted when its change is seen: a run that is listed for the first time, ended or not, has been
counted by the process that saw it change, and one that ends while no shim leads is not counted.
Labels are namespace and config, within a limit, and never the name of a run.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Final

from control.informer import Key
from control.metrics import (
    ATTEMPTS,
    DISRUPTIONS,
    RECORDS,
    REQUEST_BYTES,
    REQUEST_SECONDS,
    REQUESTS,
    RUN_DURATION,
    RUN_TIME_TO_JOB,
    RUN_WAITING,
    RUNNING_CONCURRENCY,
    RUNNING_RATE,
    RUNNING_RECORDS,
    RUNS,
    RUNS_ENDED,
    SCHEDULE_LAG,
    SCHEDULE_TIMES,
    TOKENS,
    Metric,
    Metrics,
)
from inferrun import wellknown
from inferrun.kube.objects import Object, annotations_of, status_of
from inferrun.reasons import Phase, known_reason
from inferrun.resources.status import TimeOutcome
from inferrun.timestamps import parse
from operator_shim.run_terms import has_ended, is_backfilled
from operator_shim.run_watch import RunWatch
from workflows.run_state import DISRUPTIONS as DISRUPTION_REASONS

PAIRS_LIMIT: Final = 200
"""Pairs of namespace and config with series of their own; a pair has 30 to 100 series
(measured)."""

CONFIGS_LIMIT: Final = 20
"""The configs of a namespace, so that one whose programs create a config for each run does not use
up the pairs of all others."""

OTHER: Final = "(other)"
NONE: Final = "(none)"

Observation = tuple[Metric, tuple[str, ...], float]
"""A metric, its labels besides namespace and config, and the amount."""


def levels(run: Object) -> Iterator[Observation]:
    """What a run, as it is cached, contributes to the gauges."""
    status = status_of(run)
    phase = status.get("phase") or NONE
    yield RUNS, (phase, known_reason(status.get("reason")) if phase != NONE else NONE), 1
    if phase == Phase.RUNNING:
        pace, records = status.get("pace") or {}, status.get("records") or {}
        yield RUNNING_RATE, (), pace.get("recordsPerSecond", 0)
        yield RUNNING_CONCURRENCY, (), pace.get("concurrency", 0)
        completed, failed = records.get("completed", 0), records.get("failed", 0)
        remaining = max(0, records.get("total", 0) - completed - failed)
        for outcome, count in (
            ("completed", completed),
            ("failed", failed),
            ("remaining", remaining),
        ):
            yield RUNNING_RECORDS, (outcome,), count


def changes(before: Object | None, after: Object, *, now: datetime) -> Iterator[Observation]:
    """What has happened to a run since it was cached as `before`, None for one that has just been
    created. `after` is the whole run, `now` the time of the API server.
    """
    metadata = after["metadata"]
    new = status_of(after)
    old = status_of(before or {})
    created = parse(metadata["creationTimestamp"])
    due = annotations_of(after).get(wellknown.ANNOTATION_SCHEDULED_TIME)
    if before is None:
        if due is not None and not is_backfilled(after):
            yield SCHEDULE_LAG, (), max(0.0, (created - parse(due)).total_seconds())
        return
    for outcome in map(str.lower, TimeOutcome):
        added = (new.get("times") or {}).get(outcome, 0) - (old.get("times") or {}).get(outcome, 0)
        if added > 0:
            yield SCHEDULE_TIMES, (outcome,), added
    if has_ended(before):
        # of an ended run the cache keeps a part of the status, and an edit, such as our mark,
        # changes nothing of it
        return
    yield from _spent(old, new)
    known = set(map(_identity, old.get("attempts") or ()))
    for one in new.get("attempts") or ():
        # it did not only wait
        if _identity(one) not in known and (one.get("startTime") or one.get("replaced")):
            reason = known_reason(one.get("reason"))
            is_disruption = one.get("replaced") or reason in DISRUPTION_REASONS
            yield DISRUPTIONS if is_disruption else ATTEMPTS, (reason,), 1
    if new.get("jobStatus") and not old.get("jobStatus"):
        yield RUN_TIME_TO_JOB, (), max(0.0, (now - created).total_seconds())
    if has_ended(after):
        yield RUNS_ENDED, (new["phase"], known_reason(new.get("reason"))), 1
        since = parse(new["startTime"]) if new.get("startTime") else created
        until = parse(new["completionTime"]) if new.get("completionTime") else now
        yield RUN_DURATION, (new["phase"],), max(0.0, (until - since).total_seconds())
        records = new.get("records") or {}
        for kind in ("completed", "failed"):
            yield RECORDS, (kind,), records.get(kind, 0)


def _spent(old: Object, new: Object) -> Iterator[Observation]:
    """The requests and tokens that a status adds to an earlier one."""
    sent, sent_before = new.get("pace") or {}, old.get("pace") or {}
    if sent.get("requests", 0) < sent_before.get("requests", 0):  # another Pod has begun to count
        sent_before = {}
    if sent:
        names = ("requests", "failedRequests", "requestSeconds", "sentBytes", "receivedBytes")
        requests, failed, seconds, *sizes = (
            max(0, sent.get(name, 0) - sent_before.get(name, 0)) for name in names
        )
        yield REQUESTS, ("succeeded",), max(0, requests - failed)
        yield REQUESTS, ("failed",), failed
        yield REQUEST_SECONDS, (), seconds
        yield REQUEST_BYTES, ("sent",), sizes[0]
        yield REQUEST_BYTES, ("received",), sizes[1]
    if usage := new.get("usage"):
        for kind, name in (("prompt", "promptTokens"), ("completion", "completionTokens")):
            yield (
                TOKENS,
                (kind,),
                max(0, usage.get(name, 0) - (old.get("usage") or {}).get(name, 0)),
            )


def _identity(attempt: Object) -> tuple[object, ...]:
    """Times are not part of it: they are corrected when the run ends."""
    return attempt["launch"], bool(attempt.get("replaced")), attempt.get("podName")


class LabelPairs:
    """Chooses the labels namespace and config of a run; always the same ones for a pair."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()
        self._configs: Counter[str] = Counter()

    def of(self, run: Object) -> tuple[str, str]:
        namespace = run["metadata"]["namespace"]
        config = (run["spec"].get("configRef") or {}).get("name") or NONE
        for pair in ((namespace, config), (namespace, OTHER)):
            if pair in self._known:
                return pair
            is_within = pair[1] == OTHER or self._configs[namespace] < CONFIGS_LIMIT
            if is_within and len(self._known) < PAIRS_LIMIT:
                self._known.add(pair)
                self._configs[namespace] += 1
                return pair
        return OTHER, OTHER


class RunMetrics:
    """Subscribes to the watch; create it after whatever acts on runs. `now` is the time of the API
    server."""

    def __init__(
        self,
        metrics: Metrics,
        watch: RunWatch,
        *,
        is_leader: Callable[[], bool],
        now: Callable[[], datetime],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._metrics = metrics
        self._is_leader = is_leader
        self._now = now
        self._clock = clock
        self._pairs = LabelPairs()
        self._levels: defaultdict[Metric, Counter[tuple[str, ...]]] = defaultdict(Counter)
        self._waited: defaultdict[tuple[str, ...], float] = defaultdict(float)
        self._counted_until: dict[tuple[str, ...], float] = {}
        for metric in (RUNS, RUNNING_RATE, RUNNING_CONCURRENCY, RUNNING_RECORDS):
            metrics.fill(metric, partial(self._shown, metric))
        metrics.fill(RUN_WAITING, self._all_waited)
        watch.subscribe(self.on_change)
        watch.inspect(self.on_arrival)

    def on_change(self, _key: Key, before: Object | None, after: Object | None) -> None:
        """A run changed in the cache."""
        for run, sign in ((before, -1), (after, 1)):
            if run is None:
                continue
            pair = self._pairs.of(run)
            for metric, more, amount in levels(run):
                series, labels = self._levels[metric], (*pair, *more)
                if metric is RUNS:
                    self._count_waiting(labels)
                series[labels] += sign * int(amount)
                if not series[labels]:
                    del series[labels]

    def on_arrival(self, before: Object | None, after: Object) -> None:
        """A run has been created, or a newer version of it has arrived."""
        if self._is_leader():
            pair = self._pairs.of(after)
            for metric, labels, amount in changes(before, after, now=self._now()):
                self._metrics.record(metric, amount, *pair, *labels)

    def _count_waiting(self, labels: tuple[str, ...]) -> None:
        """Add the time for which this many runs have waited since the last call."""
        *pair, phase, reason = labels
        if phase == Phase.PENDING:
            now, since = self._clock(), self._counted_until.get(labels, self._clock())
            self._counted_until[labels] = now
            if self._is_leader():
                self._waited[(*pair, reason)] += self._levels[RUNS][labels] * (now - since)

    def _all_waited(self) -> Mapping[tuple[str, ...], float]:
        for labels in list(self._levels[RUNS]):
            self._count_waiting(labels)
        return self._waited

    def _shown(self, metric: Metric) -> Mapping[tuple[str, ...], float]:
        return self._levels[metric] if self._is_leader() else {}
