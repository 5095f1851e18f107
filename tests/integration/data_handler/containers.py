"""The database and the data handler of the examples, in containers that testcontainers starts from the examples' own images.

They use the machine's network and listen on loopback only, so that they work in an engine without a network of its own.
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
"""Below those that the kernel gives to connections, so that none is taken between choosing it and listening on it."""
READY_WITHIN_SECONDS: Final = 60


@dataclass(frozen=True)
class Prediction:
    """A row of the table that predictions go to, without its time."""

    job_uid: str
    pod_uid: str
    counter: int
    value: float


@dataclass(frozen=True)
class Database:
    """PostgreSQL with the 150 irises; the tests look into it as its superuser."""

    container: DockerContainer
    port: int

    def run(self, statement: str) -> list[list[str]]:
        """The rows of a statement, as texts."""
        words = ["psql", "--no-psqlrc", "--csv", "--tuples-only", "--quiet", "--set=ON_ERROR_STOP=1"]
        done = self.container.exec([*words, "--command", statement])
        output = done.output.decode()
        assert done.exit_code == 0, output
        return [line.split(",") for line in output.splitlines()]

    def predictions(self, job_uid: str) -> list[Prediction]:
        """What is stored for a run, in the order of pods and records."""
        columns = "jobuid, poduid, counter, prediction"
        rows = self.run(
            f"select {columns} from iris_predictions where jobuid = '{job_uid}' order by poduid, counter"  # noqa: S608 - ours
        )
        return [Prediction(job, pod, int(counter), float(value)) for job, pod, counter, value in rows]


@contextmanager
def postgres() -> Iterator[Database]:
    """The database, once its tables are made."""
    port = free_port()
    container = (
        DockerContainer(POSTGRES_IMAGE)
        .with_envs(HANDLER_PASSWORD=PASSWORD, PGPORT=str(port), LISTEN_ADDRESSES=LOOPBACK)
        .with_tmpfs_mount("/var/lib/postgresql/volume", "uid=65532,gid=65532,mode=0700")
        .with_kwargs(network_mode="host")
    )
    with container:
        # Until the tables are made, it listens on its socket only.
        _wait_until(lambda: _listens(port), container=container, what="PostgreSQL")
        yield Database(container, port)


@contextmanager
def data_handler(*, database_port: int) -> Iterator[str]:
    """The address of a data handler over the database at this port, once it serves."""
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


def is_fine(handler: str, *, probe: str) -> bool:
    """What a probe of the handler says."""
    return httpx.get(f"{handler}/{probe}", trust_env=False).is_success


def free_port() -> int:
    """A port of loopback on which nobody listens."""
    return next(port for port in random.sample(PORTS, k=len(PORTS)) if not _listens(port))


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


def _wait_until(is_so: Callable[[], bool], *, container: DockerContainer, what: str) -> None:
    deadline = time.monotonic() + READY_WITHIN_SECONDS
    while not is_so():
        container.reload()
        if container.status == "exited" or time.monotonic() > deadline:
            said = b"".join(container.get_logs()).decode(errors="replace")
            raise AssertionError(
                f"{what} does not listen on {LOOPBACK}; its container is {container.status} and said:\n{said[-3000:]}\n"
                "An engine named by DOCKER_HOST must run on this machine, and share its network with containers."
            )
        time.sleep(0.05)
