"""Runs the shim and the worker with default settings as processes on this machine."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from benchmarks.control_plane import ControlPlane
from benchmarks.processes import Process, free_port, start

CHECKOUT = Path(__file__).resolve().parents[2]
MODULES = {"shim": "operator_shim", "worker": "worker"}
START_SECONDS = 60


@contextmanager
def product(folder: Path, plane: ControlPlane) -> Iterator[tuple[Process, ...]]:
    """Start the shim and the worker, wait until both are ready, and stop them at the end of the block."""
    programs: list[Process] = []
    try:
        for name, module in MODULES.items():
            port = free_port()
            environment = _environment(folder, plane, port)
            programs.append(
                start(name, [sys.executable, "-m", module], logs=folder, environment=environment, folder=CHECKOUT)
            )
            programs[-1].wait_until(_is_ready(port), seconds=START_SECONDS)
        yield tuple(programs)
    finally:
        for program in programs:
            program.stop()


def _environment(folder: Path, plane: ControlPlane, port: int) -> dict[str, str]:
    """Only the addresses of the servers; all other settings have their defaults."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "INFERRUN_KUBECONFIG": str(plane.kubeconfig),
        "TEMPORAL_ADDRESS": plane.temporal_address,
        "TEMPORAL_NAMESPACE": "default",
        "HEALTH_PORT": str(port),
        "POD_NAME": "benchmark",
    }


def _is_ready(port: int) -> Callable[[], bool]:
    def condition() -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=2).is_success
        except httpx.HTTPError:
            return False

    return condition
