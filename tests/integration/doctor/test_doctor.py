"""The doctor against a real API server and a real Temporal server, with things put wrong."""

import asyncio
import time
from pathlib import Path

import pytest
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker

from inferrun.cli.temporal_server import Frontend
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import NAMESPACES
from inferrun.temporal.connection import register_search_attributes
from tests.integration.doctor.stage import DEPLOYMENTS, ask_doctor
from workflows.activity_options import follower_queue


@workflow.defn(sandboxed=False)
class Idle:
    """A workflow, because a worker must know one to poll for them."""

    @workflow.run
    async def run(self) -> None:
        """Nothing."""


@activity.defn
async def idle() -> None:
    """An activity, for the same reason."""


async def test_a_cluster_with_our_definitions_and_a_temporal_that_answers(
    api: KubeClient, kubeconfig: Path, temporal_address: str
) -> None:
    await register_search_attributes(await Client.connect(temporal_address))
    told = ask_doctor("--kubeconfig", str(kubeconfig), environment={"TEMPORAL_ADDRESS": temporal_address})
    for what in (
        "cluster: Kubernetes v1.",
        "definition inferenceconfigs.ai.krateo.io",
        "definition inferenceruns.ai.krateo.io",
        "your rights in namespace default",
        f"Temporal: it answers at {temporal_address}",
        "Temporal namespace: default",
        "search attributes",
    ):
        assert told.line(what).startswith("ok"), told.out


async def test_programs_that_do_not_start_and_accounts_without_a_role_are_told(
    kubeconfig: Path, installed: str
) -> None:
    told = ask_doctor("--kubeconfig", str(kubeconfig), "--install-namespace", installed, environment={})
    assert told.code == 1
    for component in ("shim", "worker"):
        assert "0 of 1 Pods are ready" in told.line(f"Deployment {installed}/inferrun-{component}")
    refused = told.line(f"rights of service account inferrun-worker in namespace {installed}")
    assert refused.startswith("PROBLEM")
    assert "create jobs.batch" in refused
    assert "get pods/log" in refused


async def test_an_installation_that_is_not_there_is_told(kubeconfig: Path) -> None:
    told = ask_doctor("--kubeconfig", str(kubeconfig), "--release", "nothing-of-this-name", environment={})
    assert told.code == 1
    assert "there is no Deployment of it" in told.line("worker")


async def test_somebody_without_rights_is_told_so_and_what_cannot_be_seen_is_unknown(
    stranger: Path, installed: str
) -> None:
    told = ask_doctor("--kubeconfig", str(stranger), "-n", installed, environment={})
    assert told.code == 1
    assert "create inferenceruns.ai.krateo.io" in told.line(f"your rights in namespace {installed}")
    assert told.line("definition inferenceruns.ai.krateo.io").startswith("unknown")
    assert told.line("Deployments in namespace inferrun-system").startswith("unknown")


async def test_temporal_is_found_as_the_installation_names_it(
    kubeconfig: Path, installed: str, temporal_address: str
) -> None:
    told = ask_doctor("--kubeconfig", str(kubeconfig), "--install-namespace", installed, environment={})
    assert told.line("Temporal:") == f"ok       Temporal: it answers at {temporal_address}"


async def test_a_wrong_temporal_address_is_told_with_what_the_system_says(kubeconfig: Path) -> None:
    told = ask_doctor("--kubeconfig", str(kubeconfig), environment={"TEMPORAL_ADDRESS": "127.0.0.1:1"})
    assert told.code == 1
    assert "no server answers at 127.0.0.1:1: Connection refused" in told.line("Temporal:")
    assert "TEMPORAL_ADDRESS=HOST:PORT" in told.out


async def test_a_temporal_namespace_that_is_not_there_is_told(kubeconfig: Path, temporal_address: str) -> None:
    environment = {"TEMPORAL_ADDRESS": temporal_address, "TEMPORAL_NAMESPACE": "nowhere"}
    told = ask_doctor("--kubeconfig", str(kubeconfig), environment=environment)
    assert told.code == 1
    assert "there is no namespace nowhere" in told.line("Temporal namespace")


async def test_queues_without_workers_are_told(kubeconfig: Path, installed: str, task_queue: str) -> None:
    told = ask_doctor("--kubeconfig", str(kubeconfig), "--install-namespace", installed, environment={})
    for queue in (
        f"{task_queue} (workflows)",
        f"{task_queue} (activities)",
        f"{follower_queue(task_queue)} (activities)",
    ):
        assert "no worker polls it" in told.line(f"pollers of task queue {queue}")


async def until_polled(client: Client, task_queue: str) -> None:
    """Wait until the server has seen the workers."""
    server = Frontend(client)
    queues = ((task_queue, "workflows"), (task_queue, "activities"), (follower_queue(task_queue), "activities"))
    deadline = time.monotonic() + 30
    for queue, kind in queues:
        while not await server.pollers(queue, kind):
            assert time.monotonic() < deadline, f"no worker was seen on {queue}"
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("is_ours", [True, False], ids=["of this installation", "of another one"])
async def test_workers_on_the_queue_are_seen_and_whose_they_are(
    api: KubeClient, kubeconfig: Path, installed: str, temporal_address: str, task_queue: str, *, is_ours: bool
) -> None:
    deployment = await api.get(DEPLOYMENTS, installed, "inferrun-worker")
    environment = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    release = next(entry["value"] for entry in environment if entry["name"] == "INFERRUN_RELEASE")
    system = await api.get(NAMESPACES, None, "kube-system")
    installation = f"{release}.{system['metadata']['uid']}" if is_ours else "another.cluster"
    client = await Client.connect(temporal_address, identity=f"inferrun/{installation}/pod")
    async with (
        Worker(client, task_queue=task_queue, workflows=[Idle], activities=[idle]),
        Worker(client, task_queue=follower_queue(task_queue), activities=[idle]),
    ):
        await until_polled(client, task_queue)
        words = ("--kubeconfig", str(kubeconfig), "--install-namespace", installed)
        told = await asyncio.to_thread(ask_doctor, *words, environment={})
    for kind in ("workflows", "activities"):
        line = told.line(f"pollers of task queue {task_queue} ({kind})")
        assert line.startswith("ok" if is_ours else "PROBLEM"), line
        assert is_ours or "another installation" in line


def test_a_context_that_is_not_there_is_named(kubeconfig: Path) -> None:
    told = ask_doctor("--kubeconfig", str(kubeconfig), "--context", "elsewhere", environment={})
    assert told.code == 2
    assert "elsewhere" in told.err
