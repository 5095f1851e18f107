"""Two releases of the chart that are configured to serve the same namespace, as processes with the chart's permissions."""

import asyncio
from pathlib import Path

import pytest
from temporalio.client import Client

from benchmarks.control_plane import ControlPlane
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import EVENTS, RUNS
from tests.integration.chart.conftest import Render
from tests.integration.namespaces.installation import install, probe, running
from tests.integration.namespaces.test_listed_namespaces import (
    CreateNamespace,
    create_namespace,
    create_run,
    has_job,
    status_of,
)
from tests.integration.shim.conftest import Until

__all__ = ["create_namespace"]


@pytest.mark.parametrize("first_lists", [True, False], ids=["listed", "all"])
async def test_the_second_of_two_releases_refuses_what_the_first_serves_until_that_is_gone(
    *,
    api: KubeClient,
    plane: ControlPlane,
    temporal: Client,
    render: Render,
    create_namespace: CreateNamespace,
    until: Until,
    tmp_path: Path,
    first_lists: bool,
) -> None:
    assert temporal is not None  # it answers
    one, two, shared = [await create_namespace(name) for name in ("one", "two", "shared")]
    for name in (one, two):
        (tmp_path / name / "defaults").mkdir(parents=True)
    first = await install(
        api, plane, render, namespace=one, watched=(shared,) if first_lists else (), folder=tmp_path / one
    )
    second = await install(api, plane, render, namespace=two, watched=(shared,), folder=tmp_path / two)

    async with running(first, until):
        await create_run(api, shared)
        await until(has_job(api, shared), seconds=90)
        async with running(second, until, are_serving=False) as ports:
            where = f"namespace {shared} is served by the installation '{one}.inferrun"

            async def both_refuse() -> bool:
                answers = [await asyncio.to_thread(probe, port) for port in ports.values()]
                return all(status == 503 and where in text for status, text in answers)

            await until(both_refuse, seconds=120)
            await create_run(api, shared, name="later")
            await until(has_job(api, shared, name="later"), seconds=90)
            assert (await status_of(api, shared, name="later"))["workflow"]["id"]
            events = (await api.list(EVENTS, shared))["items"]
            assert any(one in item["message"] for item in events if item["reason"] == "NamespaceServed")
    async with running(second, until):
        await create_run(api, shared, name="last")
        await until(has_job(api, shared, name="last"), seconds=120)
    runs = (await api.list(RUNS, shared))["items"]
    assert len({run["status"]["jobStatus"]["uid"] for run in runs}) == 3
