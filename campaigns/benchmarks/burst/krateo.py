"""Krateo's controller, which has the same resources: the same burst of runs, executed by it.

It is built from its public repository by the user, who names the program; it is never installed
from here. It watches one namespace only, and is started anew for each.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from temporalio.client import Client

from campaigns.benchmarks.burst.job_watch import JobWatch
from campaigns.benchmarks.burst.kubelet import Kubelet
from campaigns.benchmarks.burst.passes import Bench, Life
from campaigns.benchmarks.burst.product import START_SECONDS, is_ready
from campaigns.benchmarks.burst.usage import Meter
from campaigns.benchmarks.control_plane import ControlPlane
from campaigns.benchmarks.processes import Process, free_port, start
from control.launches import job_state
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import PODS

KRATEO: Final = "INFERRUN_KRATEO"
"""The environment variable with the program."""

RECONCILES: Final = 50
"""Its setting MAX_RECONCILE_RATE, which limits concurrent reconciles and reconciles per second. By
default it is 1, and a burst takes a minute."""


@dataclass(frozen=True)
class Turn:
    """A burst that Krateo's controller has executed, and single runs."""

    life: Life
    single: tuple[float, ...]


@dataclass(frozen=True)
class Krateo:
    """Krateo's controller on a control plane."""

    program: Path
    api: KubeClient
    temporal: Client
    plane: ControlPlane
    folder: Path

    async def one_turn(self, namespace: str, *, size: int, warm_up: int, single: int) -> Turn:
        """Measure once, after some runs that are not measured."""
        with self._running(namespace) as controller:
            programs = (*self.plane.programs, controller)
            meter = Meter(self.api, self.plane.temporal_metrics, programs)
            bench = Bench(self.api, self.temporal, meter, size=size, single=single)
            await bench.prepare(namespace)
            await _turn(replace(bench, size=warm_up, single=0), namespace)
            return await _turn(bench, namespace)

    @contextmanager
    def _running(self, namespace: str) -> Iterator[Process]:
        port = free_port()
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "KUBECONFIG": str(self.plane.kubeconfig),
            "WATCH_NAMESPACE": namespace,
            "MAX_RECONCILE_RATE": str(RECONCILES),
        }
        command = [
            str(self.program),
            "--metrics-bind-address=0",
            f"--health-probe-bind-address=127.0.0.1:{port}",
        ]
        process = start("krateo", command, logs=self.folder, environment=environment)

        try:
            process.wait_until(is_ready(port), seconds=START_SECONDS)
            yield process
        finally:
            process.stop()


async def _turn(bench: Bench, namespace: str) -> Turn:
    """A burst to the end of its Jobs, which the controller would see when it polls, after five
    minutes."""
    async with JobWatch(bench.api, namespace) as seen:
        begun = await bench.meter.start()
        burst = await bench.burst(seen, namespace)
        to_job = await bench.meter.since(begun)
        await bench.start_pods(seen)
        await Kubelet(bench.api).end(seen.pods())
        await seen.wait(
            lambda: all(map(job_state.is_finished, seen.jobs())), what="the ends of the Jobs"
        )
        life = Life(burst, to_job, await bench.meter.since(begun))
        single = await bench.singles(seen, namespace)
        await bench.remove(seen)
        for pod in seen.pods():  # it deletes Jobs without their Pods
            metadata = pod["metadata"]
            await bench.api.delete_if_present(
                PODS, namespace, metadata["name"], uid=metadata["uid"], grace=0
            )
    return Turn(life, tuple(single))
