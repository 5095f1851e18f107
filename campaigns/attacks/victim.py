"""Observes from the outside whether attacks on others have any effect on a user of another
namespace."""

import itertools
import json
import os
import statistics
import threading
import time
from dataclasses import dataclass, field

import httpx

from tests.e2e.stage import SYSTEM, Object, Space, Stage, run, until
from tests.integration.crds.server import call, connected

INTERVAL_SECONDS = 5
QUIET_INTERVAL_SECONDS = 1
QUIET_RUNS = 12
RUNS = "/apis/ai.krateo.io/v1/namespaces/{}/inferenceruns"
GIVE_UP_SECONDS = 60
START_SECONDS = 1.0
"""How long a start may take, and by how much attacks may delay it."""

LOADED_SECONDS = 0.5
"""If starts take longer than this without attacks, other programs load the machine, and only the
delay is judged."""


@dataclass
class Victim:
    """Starts a run every few seconds, in a thread, and measures how long its Job takes to be in the
    status.

    Before that, it does the same without attacks, in the same way and on the same machine, for
    comparison.
    """

    space: Space
    quiet: list[float] = field(default_factory=list)
    """Seconds from the creation of each run to its Job in the status, before the attacks."""

    starts: list[float] = field(default_factory=list)
    """The same during the attacks."""

    errors: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._measure, daemon=True)

    def start(self) -> None:
        """Measure without attacks, then begin to measure in the background."""
        with connected(self.space.stage.kubeconfig) as client:
            for number in range(QUIET_RUNS):
                self.quiet.append(self._start_one(client, f"quiet-{number}"))
                time.sleep(QUIET_INTERVAL_SECONDS)
        self._thread.start()

    def stop(self) -> None:
        """Stop starting runs; may be called again."""
        self._stopped.set()
        self._thread.join(timeout=GIVE_UP_SECONDS + 5)

    @property
    def figures(self) -> str:
        """The starts in one line."""
        load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
        starts = (
            f"time to the Job: during attacks {spread(self.starts)}; before {spread(self.quiet)}"
        )
        return (
            f"{starts}; allowed {self.limit:.2f} s; {len(self.errors)} errors; load average {load}"
        )

    @property
    def limit(self) -> float:
        """What the 95th percentile of the starts may be, in seconds."""
        alone = slowest(self.quiet)
        return START_SECONDS + (alone if alone > LOADED_SECONDS else 0)

    def expect_no_harm(self) -> None:
        """Every run started promptly and succeeded."""
        assert self.errors == []
        assert slowest(self.starts) <= self.limit, self.figures
        until(
            lambda: not self._unfinished(),
            seconds=90,
            what="every run succeeded",
            now=self._unfinished,
        )

    def _unfinished(self) -> list[str]:
        measured = [
            item
            for item in self.space.items("inferenceruns")
            if item["metadata"]["name"].startswith("run-")
        ]
        return [
            item["metadata"]["name"]
            for item in measured
            if item.get("status", {}).get("phase") != "Succeeded"
        ]

    def _measure(self) -> None:
        with connected(self.space.stage.kubeconfig) as client:
            for number in itertools.count(1):
                try:
                    self.starts.append(self._start_one(client, f"run-{number}"))
                except (AssertionError, httpx.HTTPError) as error:
                    self.errors.append(str(error))
                if self._stopped.wait(INTERVAL_SECONDS):
                    return

    def _start_one(self, client: httpx.Client, name: str) -> float:
        path = RUNS.format(self.space.name)
        call(client, "POST", path, run(name, "actor"))
        created = time.monotonic()
        while not _has_job(call(client, "GET", f"{path}/{name}")):
            assert time.monotonic() - created < GIVE_UP_SECONDS, (
                f"{name} has no Job after {GIVE_UP_SECONDS} s"
            )
            time.sleep(0.03)
        return time.monotonic() - created


def slowest(starts: list[float]) -> float:
    """The 95th percentile."""
    return statistics.quantiles(starts, n=20, method="inclusive")[-1]


def spread(starts: list[float]) -> str:
    """Starts in a few words."""
    median, largest = statistics.median(starts), max(starts)
    return f"{len(starts)} runs, median {median:.2f} s, 95th percentile {slowest(starts):.2f} s, maximum {largest:.2f} s"


def _has_job(found: Object) -> bool:
    return bool((found.get("status") or {}).get("jobStatus"))


@dataclass(frozen=True)
class Components:
    """The product's containers: how often each has been restarted, by Pod."""

    restarts: dict[str, int]

    @classmethod
    def read(cls, stage: Stage) -> "Components":
        """As they are now, without Pods that an upgrade has replaced and that are still ending."""
        items = json.loads(stage.kubectl("-n", SYSTEM, "get", "pods", "-o", "json"))["items"]
        return cls(
            {
                item["metadata"]["uid"]: sum(
                    one["restartCount"] for one in item["status"]["containerStatuses"]
                )
                for item in items
                if item["status"]["phase"] == "Running"
                and "deletionTimestamp" not in item["metadata"]
            }
        )
