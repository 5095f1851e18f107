"""The examples' database and data handler, in containers started by testcontainers.

They use the host network and listen on loopback only, so that they work with an engine that has no
bridge network.
"""

import random
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import httpx
from testcontainers.core.container import DockerContainer

POSTGRES_IMAGE: Final = "localhost/inferrun-examples/postgres:dev"
HANDLER_IMAGE: Final = "localhost/inferrun-examples/data-handler:dev"
LOOPBACK: Final = "127.0.0.1"
PASSWORD: Final = "of-the-data-handler"
TOKEN: Final = "of-the-endpoint"
PORTS: Final = range(28_000, 32_000)
"""Below the kernel's ephemeral ports, so that a port is not taken between choosing it and listening
on it."""
READY_WITHIN_SECONDS: Final = 60


@dataclass(frozen=True)
class Prediction:
    """A row of the predictions table, without its timestamp."""

    job_uid: str
    pod_uid: str
    counter: int
    value: float


@dataclass(frozen=True)
class Database:
    """PostgreSQL with the 150 irises; the tests query it as the superuser."""

    container: DockerContainer
    port: int

    def run(self, statement: str) -> list[list[str]]:
        """The rows that a statement returns, as strings."""
        words = [
            "psql",
            "--no-psqlrc",
            "--csv",
            "--tuples-only",
            "--quiet",
            "--set=ON_ERROR_STOP=1",
        ]
        done = self.container.exec([*words, "--command", statement])
        output = done.output.decode()
        assert done.exit_code == 0, output
        return [line.split(",") for line in output.splitlines()]

    def predictions(self, job_uid: str) -> list[Prediction]:
        """The stored predictions of a run, ordered by Pod and record."""
        columns = "jobuid, poduid, counter, prediction"
        rows = self.run(
            f"select {columns} from iris_predictions where jobuid = '{job_uid}' order by poduid, counter"  # noqa: S608 -- the tests' own value
        )
        return [
            Prediction(job, pod, int(counter), float(value)) for job, pod, counter, value in rows
        ]


@contextmanager
def postgres() -> Iterator[Database]:
    """Start the database and wait until its tables exist."""
    port = free_port()
    container = (
        DockerContainer(POSTGRES_IMAGE)
        .with_envs(HANDLER_PASSWORD=PASSWORD, PGPORT=str(port), LISTEN_ADDRESSES=LOOPBACK)
        .with_tmpfs_mount("/var/lib/postgresql/volume", "uid=65532,gid=65532,mode=0700")
        .with_kwargs(network_mode="host")
    )
    with container:
        # It listens on TCP only once the tables have been created.
        _wait_until(lambda: _listens(port), container=container, what="PostgreSQL")
        yield Database(container, port)


@contextmanager
def data_handler(*, database_port: int) -> Iterator[str]:
    """Start a data handler for the database at this port and wait until it listens; yields its
    address."""
    port = free_port()
    container = (
        DockerContainer(HANDLER_IMAGE)
        .with_envs(HANDLER_HOST=LOOPBACK, HANDLER_PORT=str(port), HANDLER_TOKEN=TOKEN)
        .with_envs(PGHOST=LOOPBACK, PGPORT=str(database_port), PGDATABASE="irises")
        .with_envs(PGUSER="data_handler", PGPASSWORD=PASSWORD)
        .with_kwargs(network_mode="host")
    )
    with container:
        _wait_until(lambda: _listens(port), container=container, what="the data handler")
        yield f"http://{LOOPBACK}:{port}"


def probe_succeeds(handler: str, *, probe: str) -> bool:
    """Whether a health endpoint of the handler returns success."""
    return httpx.get(f"{handler}/{probe}", trust_env=False).is_success


def free_port() -> int:
    """An unused loopback port."""
    return next(port for port in random.sample(PORTS, k=len(PORTS)) if not _listens(port))


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def _wait_until(condition: Callable[[], bool], *, container: DockerContainer, what: str) -> None:
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while not condition():
        container.reload()
        if container.status == "exited" or time.monotonic() > deadline:
            log = b"".join(container.get_logs()).decode(errors="replace")
            raise AssertionError(
                f"{what} does not listen on {LOOPBACK}; its container is {container.status}; its log:\n{log[-3000:]}\n"
                "If DOCKER_HOST is set, the engine must run on this machine and support the host network."
            )
        time.sleep(0.05)
