"""Programs and servers are stopped, and an alert of the chart names each failure within two
minutes, by a real Prometheus."""

import signal
import time
from pathlib import Path

import pytest

from campaigns.faults.node import Container
from campaigns.faults.users import create_config, create_run
from inferrun.kube.objects import Resource
from tests.integration.alerts.ground import Named, ground
from tests.integration.chart.conftest import Render

pytestmark = pytest.mark.thorough

TEAM = "team"
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io/v1", "rolebindings")


async def test_what_goes_wrong_with_the_installation_is_named(
    render: Render, tmp_path: Path
) -> None:
    async with ground(tmp_path, render, behave=lambda *_: Container(), namespaces=(TEAM,)) as made:
        (temporal,) = (one for one in made.world.plane.programs if one.name == "temporal")
        api, shim, worker = made.world.api, made.programs["shim"], made.programs["worker"]

        await made.until_quiet()
        began = time.monotonic()
        await shim.stop()
        await made.all_named([Named(alert="InferrunNoLeader")], since=began)
        shim.start()

        await made.until_quiet()
        began = time.monotonic()
        await worker.stop()
        await create_config(api, TEAM, "iris")
        await create_run(api, TEAM, "unserved", config="iris")
        unserved = {"namespace": TEAM, "config": "iris", "reason": "Accepted"}
        await made.all_named(
            [
                Named(alert="InferrunNoWorker"),
                Named(alert="InferrunRunsNotStarted", labels=unserved, state="pending"),
                Named(panel="platform: What do runs wait for?", labels={"reason": "Accepted"}),
            ],
            since=began,
        )
        worker.start()

        await made.until_quiet()
        bindings = (await api.list(ROLE_BINDINGS, TEAM))["items"]
        (binding,) = (one for one in bindings if one["subjects"][0]["name"] == "inferrun-shim")
        began = time.monotonic()
        await api.delete(
            ROLE_BINDINGS, TEAM, binding["metadata"]["name"], uid=binding["metadata"]["uid"]
        )
        shim.kill()  # it watches what it has listed
        forbidden = {"verb": "list", "resource": "inferenceruns"}
        await made.all_named(
            [Named(alert="InferrunApiRequestsForbidden", labels=forbidden)], since=began
        )
        metadata = {
            key: binding["metadata"][key]
            for key in ("name", "labels")
            if key in binding["metadata"]
        }
        await api.create(ROLE_BINDINGS, TEAM, {**binding, "metadata": metadata})

        await made.until_quiet()
        began = time.monotonic()
        temporal.child.send_signal(signal.SIGSTOP)
        unreachable = [
            Named(alert="InferrunTemporalUnreachable", labels={"program": one})
            for one in made.programs
        ]
        await made.all_named(unreachable, since=began)
        temporal.child.send_signal(signal.SIGCONT)

        await made.until_quiet()
        began = time.monotonic()
        await made.servers.stop("temporal")
        await made.all_named(unreachable, since=began)
        made.servers.start("temporal")

        await made.until_quiet()
        began = time.monotonic()
        await made.servers.stop("kube-apiserver")
        await made.all_named(
            [
                Named(alert="InferrunApiRequestsFail", labels={"code": "none"}),
                Named(alert="InferrunNoLeader"),
                Named(panel="platform: How does the API server answer?", labels={"code": "none"}),
            ],
            since=began,
        )
