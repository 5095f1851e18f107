"""Failures are planted on the real programs, and an alert or a panel names each of them within two minutes.

Prometheus scrapes and evaluates every five seconds. The rules are those of the chart, with their own durations: an alert that
takes longer than two minutes must be pending by then, and `rules_test.yaml` shows when it fires. Kubelet and containers are played.
"""

import signal
import time
from pathlib import Path

import pytest

from inferrun.exitcodes import ExitCode, reason_of
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import EVENTS, JOBS, PODS, RUNS, Object, Resource
from inferrun.reasons import Reason
from inferrun.runner_report import OutputFinding, OutputState, RunnerResult, dump_result
from inferrun.timestamps import rfc3339, utc_now
from tests.faults.node import Container, run_of
from tests.faults.users import STORAGE, create_config, create_run
from tests.integration.alerts.ground import Named, ground, panels
from tests.integration.chart.conftest import Render
from tests.integration.waiting import create_quota, eventually

pytestmark = pytest.mark.thorough

TEAM, JOBLESS, LIMITED, FULL = "team", "jobless", "limited", "full"
FAILED = "namespace: Why do runs fail?"
WAITING = "namespace: What do runs wait for now?"
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io/v1", "rolebindings")
LIMIT_RANGES = Resource("v1", "limitranges")
MODEL = {"modelName": "iris"}

EXITS = {str(reason_of(code)): code for code in (*list(ExitCode)[1:-1], 77)}
"""The reasons of containers that fail by themselves; 77 is no code of the contract."""

WAITS: dict[Reason, tuple[str, Object, Object]] = {
    Reason.CONFIG_NOT_FOUND: (TEAM, {}, {"configRef": {"name": "nowhere"}}),
    Reason.CONFIG_NOT_READY: (TEAM, {"storage": {**STORAGE, "input": {"nowhere": {}}}}, {}),
    Reason.CONFIG_NAMESPACE_NOT_ALLOWED: (TEAM, {}, {"configRef": {"name": "nowhere", "namespace": FULL}}),
    Reason.MODEL_NOT_READY: (TEAM, {"kserve": {**MODEL, "serviceRef": {"name": "absent"}}}, {}),
    Reason.MODEL_NAMESPACE_NOT_ALLOWED: (
        TEAM,
        {"kserve": {**MODEL, "serviceRef": {"name": "absent", "namespace": FULL}}},
        {},
    ),
    Reason.UNSCHEDULABLE: (TEAM, {}, {}),
    Reason.SECRET_NOT_FOUND: (TEAM, {}, {}),
    Reason.QUOTA_EXCEEDED: (JOBLESS, {}, {}),
    Reason.POD_REJECTED: (LIMITED, {}, {}),
}
"""Why a run waits: its namespace, and fields of its config and of itself."""


def behave(run: str, launch: int, verifies: bool) -> Container:  # noqa: FBT001 -- as `Behave` has it
    """A container that does what the name of its run says."""
    if verifies:
        return Container(message=dump_result(OutputFinding(state=OutputState.NOT_COMMITTED, message="")))
    reason = next((one for one in Reason if one.lower() == run), None)
    match reason:
        case Reason.UNSCHEDULABLE | Reason.PENDING_TIMEOUT:
            return Container(unschedulable_for=3600)
        case Reason.SECRET_NOT_FOUND:
            return Container(starts_after=3600)
        case Reason.DEADLINE_EXCEEDED | Reason.DISRUPTED:
            return Container(ends_after=None)
        case Reason.ERROR_THRESHOLD_EXCEEDED:
            return Container(exit_code=4, message=dump_result(RunnerResult(reason=reason, message="", retryable=False)))
    fails_once = run == "repeated" and launch == 1
    return Container(exit_code=ExitCode.INPUT if fails_once else EXITS.get(str(reason), ExitCode.DONE))


async def plant_waits(api: KubeClient) -> list[Named]:
    """Runs that wait for something, and what names them."""
    small = {"limits": [{"type": "Container", "max": {"memory": "1Mi"}, "default": {"memory": "1Mi"}}]}
    await api.create(LIMIT_RANGES, LIMITED, {"metadata": {"name": "small"}, "spec": small})
    for reason, (namespace, config, run) in WAITS.items():
        await create_config(api, namespace, reason.lower(), **config)
        await create_run(api, namespace, reason.lower(), **{"config": reason.lower(), **run})
    pod = await eventually(lambda: pod_of(api, Reason.SECRET_NOT_FOUND.lower()), what="the Pod that lacks a Secret")
    metadata = {"name": "failed-mount", "namespace": TEAM}
    involved = {"kind": "Pod", "namespace": TEAM, **{key: pod["metadata"][key] for key in ("name", "uid")}}
    said = 'MountVolume.SetUp failed for volume "endpoint-input" : secret "iris-endpoint" not found'
    now = rfc3339(utc_now())
    event = {
        "metadata": metadata,
        "involvedObject": involved,
        "reason": "FailedMount",
        "message": said,
        "type": "Warning",
    }
    await api.create(EVENTS, TEAM, {**event, "firstTimestamp": now, "lastTimestamp": now, "count": 1})
    return [
        Named(alert="InferrunRunsWaiting", labels={"namespace": namespace, "reason": reason}, state="pending")
        for reason, (namespace, _, _) in WAITS.items()
    ] + [
        Named(panel=WAITING, labels={"reason": reason})
        for reason, (namespace, _, _) in WAITS.items()
        if namespace == TEAM
    ]


async def plant_failures(api: KubeClient) -> list[Named]:
    """Runs that fail, and what names them."""
    more: dict[str, Object] = {
        Reason.DEADLINE_EXCEEDED: {"timeoutSeconds": 5},
        Reason.PENDING_TIMEOUT: {"pendingTimeoutSeconds": 5},
        Reason.ERROR_THRESHOLD_EXCEEDED: {},
    }
    planted = {**{reason: {} for reason in EXITS}, **more}
    await create_config(api, TEAM, "fails")
    for reason, spec in planted.items():
        await create_run(api, TEAM, reason.lower(), config="fails", backoffLimit=0, **spec)
    labels = [{"namespace": TEAM, "config": "fails", "reason": str(reason)} for reason in planted]
    return [
        *(Named(alert="InferrunRunsFail", labels=one) for one in labels),
        *(Named(panel=FAILED, labels={"config": "fails", "reason": one["reason"]}) for one in labels),
    ]


async def plant_others(api: KubeClient) -> list[Named]:
    """A Pod that is evicted, an attempt that fails, and a schedule whose runs exceed a quota."""
    await create_config(api, TEAM, "others")
    await create_run(api, TEAM, Reason.DISRUPTED.lower(), config="others")
    await create_run(api, TEAM, "repeated", config="others")
    pod = await eventually(
        lambda: pod_of(api, Reason.DISRUPTED.lower(), phase="Running"), what="the Pod that is deleted"
    )
    await api.delete(PODS, TEAM, pod["metadata"]["name"], uid=pod["metadata"]["uid"])
    await create_config(api, FULL, "full")
    await create_run(api, FULL, "schedule", config="full", schedule="* * * * *", startingDeadlineSeconds=10)
    return [
        Named(panel="namespace: How much does the cluster disturb runs?", labels={"config": "others"}),
        Named(panel="namespace: Why is work repeated?", labels={"config": "others", "reason": Reason.INPUT_FAILED}),
        Named(alert="InferrunScheduledTimesMissed", labels={"namespace": FULL, "outcome": "missed"}),
        Named(panel="platform: Which scheduled times got no run?", labels={"outcome": "missed"}),
    ]


async def pod_of(api: KubeClient, run: str, *, phase: str = "") -> Object | None:
    pods = (await api.list(PODS, TEAM))["items"]
    return next((pod for pod in pods if run_of(pod) == run and pod["status"].get("phase", "").startswith(phase)), None)


async def test_what_goes_wrong_with_runs_is_named(render: Render, tmp_path: Path) -> None:
    async with ground(tmp_path, render, behave=behave, namespaces=(TEAM, JOBLESS, LIMITED, FULL)) as made:
        await create_quota(made.world.api, JOBLESS, "jobs", JOBS, hard=0)
        await create_quota(made.world.api, FULL, "runs", RUNS, hard=1)
        await made.until_quiet()
        began = time.monotonic()
        named = [await plant(made.world.api) for plant in (plant_waits, plant_failures, plant_others)]
        await made.all_named([one for some in named for one in some], since=began)
        for query in panels().values():
            await made.prometheus.series(query)


async def test_what_goes_wrong_with_the_installation_is_named(render: Render, tmp_path: Path) -> None:
    async with ground(tmp_path, render, behave=behave, namespaces=(TEAM,)) as made:
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
        await api.delete(ROLE_BINDINGS, TEAM, binding["metadata"]["name"], uid=binding["metadata"]["uid"])
        shim.kill()  # it watches what it has listed
        forbidden = {"verb": "list", "resource": "inferenceruns"}
        await made.all_named([Named(alert="InferrunApiRequestsForbidden", labels=forbidden)], since=began)
        metadata = {key: binding["metadata"][key] for key in ("name", "labels") if key in binding["metadata"]}
        await api.create(ROLE_BINDINGS, TEAM, {**binding, "metadata": metadata})

        await made.until_quiet()
        began = time.monotonic()
        temporal.child.send_signal(signal.SIGSTOP)
        unreachable = [Named(alert="InferrunTemporalUnreachable", labels={"program": one}) for one in made.programs]
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
