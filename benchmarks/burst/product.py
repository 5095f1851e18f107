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
        for kind in MODULES:
            program, port = start_program(folder, plane, kind, identity="benchmark")
            programs.append(program)
            program.wait_until(is_ready(port), seconds=START_SECONDS)
        yield tuple(programs)
    finally:
        for program in programs:
            program.stop()


def start_program(folder: Path, plane: ControlPlane, kind: str, *, identity: str) -> tuple[Process, int]:
    """Start a shim or a worker; returns it and the port of its probes."""
    port = free_port()
    environment = {**_environment(folder, plane, port), "POD_NAME": identity}
    name = kind if identity == "benchmark" else identity
    command = [sys.executable, "-m", MODULES[kind]]
    return start(name, command, logs=folder, environment=environment, folder=CHECKOUT), port


def _environment(folder: Path, plane: ControlPlane, port: int) -> dict[str, str]:
    """Only the addresses of the servers; all other settings have their defaults."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "INFERRUN_KUBECONFIG": str(plane.kubeconfig),
        "TEMPORAL_ADDRESS": plane.temporal_address,
        "TEMPORAL_NAMESPACE": "default",
        "HEALTH_PORT": str(port),
    }


def is_ready(port: int) -> Callable[[], bool]:
    """A probe of the program's readiness."""

    def condition() -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=2).is_success
        except httpx.HTTPError:
            return False

    return condition
