"""`python -m campaigns.faults.program shim|worker`: the real program, with clients into which
faults are injected.

`FAULTS_FOLDER` is the folder of planned faults; with `FAULTS_LOG=all`, every call is logged there,
not only the first of its kind. Everything else is as in `python -m operator_shim` and `python -m
worker`.
"""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvloop
from temporalio.client import Client

from campaigns.faults.injection import FaultFolder, FaultyKubeClient, FaultyServiceClient, Injector
from control.installation import installation_id
from control.metrics import Metrics
from control.process import leave, run_program
from control.run_defaults_folder import DefaultsFolder
from control.settings import ControlSettings
from control.tracing import open_traces
from inferrun.kube.client import KubeClient, connect
from inferrun.temporal.connection import connect as connect_temporal
from operator_shim.composition import ShimProcess
from worker.composition import WorkerProcess


def _faulty(client: Client, injector: Injector) -> Client:
    injector.temporal = client
    config = client.config()
    config["service_client"] = FaultyServiceClient(client.service_client, injector)
    return Client(**config)


@asynccontextmanager
async def _connected(
    settings: ControlSettings,
) -> AsyncIterator[tuple[Injector, KubeClient, str, DefaultsFolder]]:
    logs_all = os.environ.get("FAULTS_LOG") == "all"
    injector = Injector(FaultFolder(Path(os.environ["FAULTS_FOLDER"]), logs_all=logs_all))
    api = FaultyKubeClient(await connect(kubeconfig=settings.kubeconfig), injector)
    try:
        installation = await installation_id(
            api, release=settings.release, namespace=settings.namespace
        )
        yield injector, api, installation, DefaultsFolder(settings.defaults_folder)
    finally:
        await api.close()


@asynccontextmanager
async def _shim(settings: ControlSettings, metrics: Metrics) -> AsyncIterator[ShimProcess]:
    async with _connected(settings) as (injector, api, installation, defaults):
        client = await connect_temporal(
            identity=f"inferrun-shim/{installation}/{settings.identity}", lazy=True
        )
        faulty = _faulty(client, injector)
        traces = open_traces(settings, program="shim")
        yield ShimProcess(
            settings,
            api=api,
            client=faulty,
            installation=installation,
            defaults=defaults,
            metrics=metrics,
            traces=traces,
        )


@asynccontextmanager
async def _worker(settings: ControlSettings, _metrics: Metrics) -> AsyncIterator[WorkerProcess]:
    async with _connected(settings) as (injector, api, installation, defaults):
        client = _faulty(
            await connect_temporal(identity=f"inferrun/{installation}/{settings.identity}"),
            injector,
        )
        traces = open_traces(settings, program="worker")
        yield WorkerProcess(
            settings,
            api=api,
            client=client,
            installation=installation,
            defaults=defaults,
            traces=traces,
        )


if __name__ == "__main__":
    if sys.argv[1] == "shim":
        leave(run_program(_shim, run=uvloop.run))
    leave(run_program(_worker, run=uvloop.run))
