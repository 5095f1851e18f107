"""Runs the command `inferrun`, and creates a simulated installation on a real API server.

The installation has Deployments with the chart's labels, and service accounts. Its Pods cannot
start, because the tests only need what doctor reads.
"""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import NAMESPACES, Resource

CHECKOUT = Path(__file__).resolve().parents[3]
CLUSTER_FILES = CHECKOUT / ".devcluster"

ACCOUNTS = Resource("v1", "serviceaccounts")
DEPLOYMENTS = Resource("apps/v1", "deployments")
DEFINITIONS = Resource("apiextensions.k8s.io/v1", "customresourcedefinitions")

Json = dict[str, Any]  # Any: manifests are free-form JSON


@dataclass(frozen=True)
class Printed:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    def line(self, what: str) -> str:
        """The first line of the output that contains `what`."""
        found = [line for line in self.out.splitlines() if what in line]
        assert found, self.out + self.err
        return found[0]


def run_command(*words: str, environment: Mapping[str, str] | None = None) -> Printed:
    """Run `inferrun` with only these environment variables."""
    done = subprocess.run(
        [sys.executable, "-m", "inferrun.cli", *words],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", **(environment or {})},
        cwd=CHECKOUT,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Printed(done.returncode, done.stdout, done.stderr)


async def install(
    api: KubeClient, *, namespace: str, task_queue: str, temporal: str, replicas: int
) -> None:
    """Create a namespace with the objects of a release that doctor reads."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    await api.create(NAMESPACES, None, body)
    for component in ("shim", "worker"):
        account = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": f"inferrun-{component}"},
        }
        await api.create(ACCOUNTS, namespace, account)
        environment = {
            "INFERRUN_RELEASE": f"{namespace}.inferrun"[:26],
            "INFERRUN_TASK_QUEUE": task_queue,
            "WATCH_NAMESPACE": namespace,
            "TEMPORAL_ADDRESS": temporal,
        }
        deployment = _deployment(
            component, namespace=namespace, environment=environment, replicas=replicas
        )
        await api.create(DEPLOYMENTS, namespace, deployment)


def _deployment(
    component: str, *, namespace: str, environment: Mapping[str, str], replicas: int
) -> Json:
    labels = {
        "app.kubernetes.io/name": "inferrun",
        "app.kubernetes.io/instance": "inferrun",
        "app.kubernetes.io/component": component,
    }
    container = {
        "name": component,
        "image": "localhost/inferrun/not-there:none",
        "imagePullPolicy": "Never",
        "env": [{"name": name, "value": value} for name, value in environment.items()],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"inferrun-{component}", "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"serviceAccountName": f"inferrun-{component}", "containers": [container]},
            },
        },
    }
