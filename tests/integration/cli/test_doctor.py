"""The command `doctor` against a real API server and a real Temporal server."""

import asyncio
import time
from pathlib import Path

import pytest
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

from inferrun.cli.temporal_server import TemporalServer
from inferrun.installation import RECORD
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import LEASES
from inferrun.temporal.connection import register_search_attributes
from tests.integration.cli.stage import DEPLOYMENTS, run_command


@workflow.defn(sandboxed=False)
class Idle:
    """A workflow, which a worker needs in order to poll for workflow tasks."""

    @workflow.run
    async def run(self) -> None:
        """Nothing."""


@activity.defn
async def idle() -> None:
    """An activity, for the same reason."""


async def test_a_healthy_cluster_and_temporal_server_have_no_problems(
    api: KubeClient, kubeconfig: Path, temporal_address: str
) -> None:
    await register_search_attributes(await Client.connect(temporal_address))
    printed = run_command(
        "doctor",
        "--kubeconfig",
        str(kubeconfig),
        environment={"TEMPORAL_ADDRESS": temporal_address},
    )
    for what in (
        "cluster: Kubernetes v1.",
        "definition inferenceconfigs.ai.krateo.io",
        "definition inferenceruns.ai.krateo.io",
        "your permissions in namespace default",
        f"Temporal: connected to {temporal_address}",
        "Temporal namespace: default",
        "search attributes",
    ):
        assert printed.line(what).startswith("ok"), printed.out


async def test_programs_that_do_not_start_and_accounts_without_a_role_are_reported(
    kubeconfig: Path, installed: str, temporal_address: str
) -> None:
    printed = run_command(
        "doctor", "--kubeconfig", str(kubeconfig), "--install-namespace", installed
    )
    assert printed.code == 1
    for component in ("shim", "worker"):
        assert "0 of 1 Pods are ready" in printed.line(
            f"Deployment {installed}/inferrun-{component}"
        )
    denied = printed.line(
        f"permissions of service account inferrun-worker in namespace {installed}"
    )
    assert denied.startswith("PROBLEM")
    assert "create jobs.batch" in denied
    assert "get pods/log" in denied
    assert printed.line("Temporal:") == f"ok       Temporal: connected to {temporal_address}", (
        "as the installation has it"
    )


async def test_without_permissions_the_missing_ones_are_reported_and_other_checks_are_unknown(
    stranger: Path, installed: str
) -> None:
    printed = run_command("doctor", "--kubeconfig", str(stranger), "-n", installed)
    assert printed.code == 1
    assert "create inferenceruns.ai.krateo.io" in printed.line(
        f"your permissions in namespace {installed}"
    )
    assert printed.line("definition inferenceruns.ai.krateo.io").startswith("unknown")
    assert printed.line("Deployments in namespace inferrun-system").startswith("unknown")


async def test_an_unreachable_temporal_server_is_reported_with_the_systems_error(
    kubeconfig: Path,
) -> None:
    printed = run_command(
        "doctor", "--kubeconfig", str(kubeconfig), environment={"TEMPORAL_ADDRESS": "127.0.0.1:1"}
    )
    assert printed.code == 1
    assert "no response from 127.0.0.1:1: Connection refused" in printed.line("Temporal:")
    assert "TEMPORAL_ADDRESS=HOST:PORT" in printed.out


async def test_a_missing_temporal_namespace_is_reported(
    kubeconfig: Path, temporal_address: str
) -> None:
    environment = {"TEMPORAL_ADDRESS": temporal_address, "TEMPORAL_NAMESPACE": "nowhere"}
    printed = run_command("doctor", "--kubeconfig", str(kubeconfig), environment=environment)
    assert printed.code == 1
    assert "namespace nowhere does not exist" in printed.line("Temporal namespace")


async def until_polled(client: Client, task_queue: str) -> None:
    """Wait until the server lists the workers."""
    server = TemporalServer(client, address="")
    deadline = time.monotonic() + 30
    for kind in ("workflows", "activities"):
        while not await server.pollers(task_queue, kind):
            assert time.monotonic() < deadline, f"no worker polls {task_queue}"
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("is_ours", [True, False], ids=["of this installation", "of another one"])
async def test_workers_of_this_and_of_another_installation_are_distinguished(
    api: KubeClient,
    kubeconfig: Path,
    installed: str,
    temporal_address: str,
    task_queue: str,
    *,
    is_ours: bool,
) -> None:
    deployment = await api.get(DEPLOYMENTS, installed, "inferrun-worker")
    environment = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    release = next(entry["value"] for entry in environment if entry["name"] == "INFERRUN_RELEASE")
    await api.create(
        LEASES,
        installed,
        {"metadata": {"name": RECORD}, "spec": {"holderIdentity": "this-cluster"}},
    )
    installation = f"{release}.this-cluster" if is_ours else "another.cluster"
    client = await Client.connect(temporal_address, identity=f"inferrun/{installation}/pod")
    async with Worker(client, task_queue=task_queue, workflows=[Idle], activities=[idle]):
        await until_polled(client, task_queue)
        words = ("--kubeconfig", str(kubeconfig), "--install-namespace", installed)
        printed = await asyncio.to_thread(run_command, "doctor", *words)
    for kind in ("workflows", "activities"):
        line = printed.line(f"pollers of task queue {task_queue} ({kind})")
        assert line.startswith("ok" if is_ours else "PROBLEM"), line
        assert is_ours or "another installation" in line


def test_a_missing_context_is_named(kubeconfig: Path) -> None:
    printed = run_command("doctor", "--kubeconfig", str(kubeconfig), "--context", "elsewhere")
    assert printed.code == 2
    assert "elsewhere" in printed.err
