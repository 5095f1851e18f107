"""Rounds in which the product and Krateo's controller take turns at the same burst on the same
servers, each while the other is stopped; and what the product's runs use, process by process.

Without Krateo's controller, the product is measured alone.
"""

import asyncio
import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from temporalio.client import Client

from campaigns.benchmarks.burst.krateo import KRATEO, Krateo, Turn
from campaigns.benchmarks.burst.passes import Bench, Pass
from campaigns.benchmarks.burst.product import product
from campaigns.benchmarks.burst.run import install
from campaigns.benchmarks.burst.usage import Meter, Usage
from campaigns.benchmarks.control_plane import ControlPlane, control_plane
from inferrun.kube.client import connect
from inferrun.temporal.plugin import inferrun_plugin

SIZE = 60
WARM_UP = 12
"""Runs that each program executes before it is measured: it has just been started."""

SINGLE = 3
IDLE_SECONDS = 5.0
"""How long the servers, shim and worker are measured while there is nothing to do."""


@dataclass
class Findings:
    """A value per round of everything that was measured."""

    passes: list[Pass] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    """Those of Krateo's controller; empty if there is none."""

    idle: list[Usage] = field(default_factory=list)


def measure(binaries: Path, *, rounds: int) -> Findings:
    """Start the servers, play the rounds, and stop everything."""
    with (
        tempfile.TemporaryDirectory(prefix="inferrun-bench-") as name,
        control_plane(Path(name), binaries=binaries) as plane,
    ):
        return asyncio.run(_measure(Path(name), plane, rounds=rounds))


async def _measure(folder: Path, plane: ControlPlane, *, rounds: int) -> Findings:
    found = Findings()
    api = await connect(kubeconfig=plane.kubeconfig)
    try:
        await install(api)
        temporal = await Client.connect(plane.temporal_address, plugins=[inferrun_plugin()])
        program = os.environ.get(KRATEO)
        krateo = Krateo(Path(program), api, temporal, plane, folder) if program else None

        async def ours(number: int) -> None:
            with product(folder, plane) as programs:
                meter = Meter(api, plane.temporal_metrics, (*plane.programs, *programs))
                warm_up = Bench(api, temporal, meter, size=WARM_UP, single=0)
                await warm_up.warm_up(f"warm-up-{number}")
                begun = await meter.start()
                await asyncio.sleep(IDLE_SECONDS)
                found.idle.append(await meter.since(begun))
                bench = Bench(api, temporal, meter, size=SIZE, single=SINGLE)
                found.passes.append(await bench.one_pass(number))
                _print(number, "inferrun", found.passes[-1].life.burst.rate)

        async def theirs(number: int) -> None:
            if krateo is None:
                return
            turn = await krateo.one_turn(
                f"krateo-{number}", size=SIZE, warm_up=WARM_UP, single=SINGLE
            )
            found.turns.append(turn)
            _print(number, "Krateo's controller", turn.life.burst.rate)

        for number in range(1, rounds + 1):
            for turn in (ours, theirs) if number % 2 else (theirs, ours):
                await turn(number)
    finally:
        await api.close()
    return found


def _print(number: int, name: str, rate: float) -> None:
    print(f"round {number}: {name} {rate:.1f} Jobs/s", flush=True)
