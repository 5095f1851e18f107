"""Runs the shim and the worker with default settings as processes on this machine, on an
interpreter like that of the images."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from campaigns.benchmarks.control_plane import ControlPlane
from campaigns.benchmarks.processes import Process, free_port, start

CHECKOUT = Path(__file__).resolve().parents[3]
MODULES = {"shim": "operator_shim", "worker": "worker"}
START_SECONDS = 60

SYSTEM_PYTHON = Path("/usr/bin/python3")
"""The base of the images and distributions compile Python with profile-guided optimisation. One
that was compiled without takes a third more CPU time for the same code (measured)."""


@contextmanager
def product(folder: Path, plane: ControlPlane) -> Iterator[tuple[Process, ...]]:
    """Start the shim and the worker, wait until both are ready, and stop them at the end of the
    block."""
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


def start_program(
    folder: Path, plane: ControlPlane, kind: str, *, identity: str
) -> tuple[Process, int]:
    """Start a shim or a worker; returns it and the port of its probes."""
    port = free_port()
    python, packages = interpreter()
    environment = {
        **_environment(folder, plane, port),
        "POD_NAME": identity,
        "PYTHONPATH": packages,
    }
    name = kind if identity == "benchmark" else identity
    command = [python, "-m", MODULES[kind]]
    return start(name, command, logs=folder, environment=environment, folder=CHECKOUT), port


def interpreter(*, system: Path = SYSTEM_PYTHON) -> tuple[str, str]:
    """The Python that runs the programs, and the folder of their packages: the system's, if it is
    of the version for which the packages of this environment were installed, otherwise this
    process's own.
    """
    own, packages = sys.executable, sysconfig.get_paths()["purelib"]
    return (str(system) if _version_of(system) == sys.version_info[:2] else own), packages


def _version_of(python: Path) -> tuple[int, ...]:
    """Its major and minor version; empty if there is none."""
    try:
        command = [str(python), "-c", "import sys; print(*sys.version_info[:2])"]
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        return ()
    return tuple(map(int, answer.stdout.split()))


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
