"""The deployed Temporal server, its four services in one process, on a real PostgreSQL with that
server's own defaults.

Assumes that the databases are empty. Everything listens on loopback.
"""

import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest

from campaigns.benchmarks.processes import Launch, cpu_seconds, free_port, serves_temporal
from tests.integration.runner.postgres_server import USER, Postgres, postgres_server
from tools.devcluster import binaries

DATABASES = {"temporal": "temporal", "temporal_visibility": "visibility"}
"""Each database and the folder of its schema."""

SETTINGS = {"fsync": "on", "shared_buffers": "128MB", "max_connections": "200"}
"""Those that the tests change have PostgreSQL's defaults again; the four services of one replica
open up to 160 connections."""

SHARDS, MAX_CONNECTIONS = 512, 20
"""As in the recipe, docs/how-to/temporal-postgresql.md."""

REGISTER_NAMESPACE = "/temporal.api.workflowservice.v1.WorkflowService/RegisterNamespace"
DAY = 86_400


@dataclass(frozen=True)
class Database:
    """The PostgreSQL of a Temporal server."""

    server: Postgres

    def cpu_seconds(self) -> float:
        """CPU time used so far by the server and by all its processes, those that have ended
        included."""
        with self.server.connect() as connection:
            backend = Path(f"/proc/{connection.info.backend_pid}/stat")
            server = int(backend.read_text().rpartition(")")[2].split()[1])
            used = cpu_seconds(server, of_ended_children=True)
            for child in Path(f"/proc/{server}/task/{server}/children").read_text().split():
                with suppress(FileNotFoundError):
                    used += cpu_seconds(int(child))
        return used

    def stored_bytes(self) -> int:
        """The size of the two databases."""
        query = (
            "SELECT sum(pg_database_size(datname))::bigint FROM pg_database WHERE datname = ANY(%s)"
        )
        return int(self.server.execute(query, list(DATABASES))[0][0])

    def connections(self) -> int:
        """How many connections to the two databases are open."""
        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = ANY(%s)"
        return int(self.server.execute(query, list(DATABASES))[0][0])

    def launch(self, folder: Path, port: int, metrics: int) -> Launch:
        """How to start the Temporal server on this port."""
        program = binaries.program_dir(binaries.TEMPORAL_SERVER) / "temporal-server"
        config = folder / "temporal-config"
        config.mkdir(exist_ok=True)
        (config / "development.yaml").write_text(json.dumps(self._config(port, metrics)))
        command = [
            str(program),
            "--root",
            str(folder),
            "--config",
            config.name,
            "--allow-no-auth",
            "start",
        ]
        return Launch(command, _serves_default(port))

    def _config(self, port: int, metrics: int) -> dict[str, Any]:  # Any: YAML
        database = {
            "pluginName": "postgres12",
            "connectAddr": f"127.0.0.1:{self.server.port}",
            "connectProtocol": "tcp",
            "user": USER,
            "password": self.server.password,
            "maxConns": MAX_CONNECTIONS,
            "maxIdleConns": MAX_CONNECTIONS,
            "maxConnLifetime": "1h",
        }
        ports = {
            "frontend": port,
            **{name: free_port() for name in ("history", "matching", "worker")},
        }
        own = {
            "enabled": True,
            "initialFailoverVersion": 1,
            "rpcName": "frontend",
            "rpcAddress": f"127.0.0.1:{port}",
        }
        return {
            "log": {"stdout": True, "level": "error"},
            "persistence": {
                "defaultStore": "temporal",
                "visibilityStore": "temporal_visibility",
                "numHistoryShards": SHARDS,
                "datastores": {
                    name: {"sql": {**database, "databaseName": name}} for name in DATABASES
                },
            },
            "global": {
                "membership": {"maxJoinDuration": "30s", "broadcastAddress": "127.0.0.1"},
                "metrics": {"prometheus": {"listenAddress": f"127.0.0.1:{metrics}"}},
            },
            "services": {
                name: {
                    "rpc": {
                        "grpcPort": number,
                        "membershipPort": free_port(),
                        "bindOnLocalHost": True,
                    }
                }
                for name, number in ports.items()
            },
            "clusterMetadata": {
                "failoverVersionIncrement": 10,
                "masterClusterName": "active",
                "currentClusterName": "active",
                "clusterInformation": {"active": own},
            },
            "publicClient": {"hostPort": f"127.0.0.1:{port}"},
        }


@contextmanager
def temporal_database() -> Iterator[Database]:
    """Start PostgreSQL and create the two databases with Temporal's own tool, which contains the
    schemas."""
    binaries.build_missing(modules=(binaries.TEMPORAL_SERVER,))
    tool = binaries.program_dir(binaries.TEMPORAL_SERVER) / "temporal-sql-tool"
    with postgres_server(SETTINGS) as server:
        login = ["--plugin", "postgres12", "--ep", "127.0.0.1", "-p", str(server.port), "-u", USER]
        for database, schema in DATABASES.items():
            common = [str(tool), *login, "--pw", server.password, "--db", database]
            for words in (
                ["create-database", "--defaultdb", "postgres"],
                ["setup-schema", "-v", "0.0"],
                ["update-schema", "--schema-name", f"postgresql/v12/{schema}"],
            ):
                subprocess.run([*common, *words], check=True, capture_output=True)
        yield Database(server)


def _serves_default(port: int) -> Callable[[], bool]:
    """A probe that creates the namespace `default`, which a deployed server does not have."""
    retention = Duration(seconds=DAY)
    request = RegisterNamespaceRequest(
        namespace="default", workflow_execution_retention_period=retention
    )

    def condition() -> bool:
        with suppress(grpc.RpcError), grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
            channel.unary_unary(REGISTER_NAMESPACE)(request.SerializeToString(), timeout=5)
        return serves_temporal(port)()

    return condition
