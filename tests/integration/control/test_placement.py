"""Where the Pods of a run are scheduled: as its config says, and never beyond the operator's lists.
The scheduler is real."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from secrets import token_hex
from typing import Any

import pytest

from control.cluster.job_marks import start_job
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIGS, JOBS, PODS, Object, Resource
from inferrun.launches import manifests
from inferrun.launches.compilation import compile_run
from inferrun.reasons import Reason
from inferrun.resources import parse_config
from inferrun.run_defaults import Defaults, parse_defaults
from tests.integration.control.place import Place
from tests.integration.control.pods import launch, launcher_of
from tests.integration.waiting import eventually
from workflows.messages import LaunchState

NODES = Resource("v1", "nodes")
PRIORITIES = Resource("scheduling.k8s.io/v1", "priorityclasses")
RUNTIMES = Resource("node.k8s.io/v1", "runtimeclasses")
SMALL = {"requests": {"cpu": "1m", "memory": "1Mi"}}


def settings(**lists: str) -> Callable[[], Defaults]:
    defaults, problems = parse_defaults(lists, last=Defaults())
    assert problems == ()
    return lambda: defaults


@pytest.fixture
async def pool(api: KubeClient) -> AsyncIterator[str]:
    """The key of a label of the node, whose value is "spot", and the name of a priority class and a
    runtime class."""
    name = f"tests-{token_hex(4)}"
    [node, *_] = (await api.list(NODES, None))["items"]
    path = node["metadata"]["name"]
    await api.patch(NODES, None, path, {"metadata": {"labels": {name: "spot"}}})
    priority = await api.create(PRIORITIES, None, {"metadata": {"name": name}, "value": 7})
    runtime = await api.create(RUNTIMES, None, {"metadata": {"name": name}, "handler": "runc"})
    yield name
    await api.patch(NODES, None, path, {"metadata": {"labels": {name: None}}})
    await api.delete(PRIORITIES, None, name, uid=priority["metadata"]["uid"])
    await api.delete(RUNTIMES, None, name, uid=runtime["metadata"]["uid"])


def placed_in(pool: str, **changes: Any) -> dict[str, Any]:
    """Every field of the placement of a config."""
    wanted = {"matchExpressions": [{"key": pool, "operator": "In", "values": ["spot", "other"]}]}
    return {
        "nodeSelector": {pool: "spot"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [wanted]},
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 5, "preference": wanted}
                ],
            }
        },
        "tolerations": [
            {"key": pool, "operator": "Exists", "effect": "NoSchedule"},
            {"key": pool, "value": "spot"},
        ],
        "priorityClassName": pool,
        "runtimeClassName": pool,
        **changes,
    }


def allowing(pool: str) -> dict[str, str]:
    return {
        "allowedNodeLabels": f"{pool}=spot,{pool}=other",
        "allowedTolerations": f"{pool}=*:NoSchedule,{pool}=spot:*",
        "allowedPriorityClasses": pool,
        "allowedRuntimeClasses": pool,
    }


async def pod_of(api: KubeClient, namespace: str, job: str) -> Object:
    """The Pod of a Job, once the scheduler has placed it."""

    async def look() -> Object | None:
        found = (
            await api.list(PODS, namespace, labelSelector=f"batch.kubernetes.io/job-name={job}")
        )["items"]
        return next((item for item in found if item["spec"].get("nodeName")), None)

    return await eventually(look, what=f"a Pod of {job} on the node")


async def test_a_pod_is_scheduled_as_its_config_says(place: Place, pool: str) -> None:
    config = await place.config(resources=SMALL, **placed_in(pool))
    run = await place.run(config, resources={"requests": {"memory": "2Mi"}})
    result = await launch(launcher_of(place.api, defaults=settings(**allowing(pool))), run)
    pod = (await pod_of(place.api, place.namespace, result.job_name))["spec"]
    assert pod["priority"] == 7
    assert pod["runtimeClassName"] == pool
    assert pod["nodeSelector"] == {pool: "spot"}
    assert pod["affinity"] == placed_in(pool)["affinity"]
    assert pod["tolerations"][:2] == placed_in(pool)["tolerations"]
    assert pod["containers"][0]["resources"]["requests"] == {
        "cpu": "1m",
        "memory": "2Mi",
        "ephemeral-storage": "100Mi",
    }


async def test_a_run_keeps_its_placement_and_no_edit_of_its_config_widens_it(
    place: Place, pool: str
) -> None:
    place = replace(place, launcher=launcher_of(place.api, defaults=settings(**allowing(pool))))
    config = await place.config(**placed_in(pool))
    run = await place.run(config)
    first = await place.launch(run)
    urgent = {
        "priorityClassName": "system-node-critical",
        "tolerations": [{"key": "a", "operator": "Exists"}],
    }
    await place.edit_config(config, **urgent)
    second = await place.launch(run, launch=2, attempt=2)
    pods = [(await place.job(one.job_name))["spec"]["template"]["spec"] for one in (first, second)]
    assert pods[0]["priorityClassName"] == pods[1]["priorityClassName"] == pool
    assert pods[0]["tolerations"] == pods[1]["tolerations"] == placed_in(pool)["tolerations"]
    other = await place.waits(await place.run(config), Reason.CONFIG_NOT_READY)
    assert (
        f'spec.priorityClassName is "system-node-critical"; allowed in this installation: {pool} (setting'
        in (other.message)
    )
    assert (
        f'spec.tolerations is "a=*:*"; allowed in this installation: {pool}=*:NoSchedule'
        in other.message
    )


async def test_what_the_operator_withdraws_is_not_used_by_the_next_launch(
    place: Place, pool: str
) -> None:
    run = await place.run(await place.config(**placed_in(pool)))
    await launch(launcher_of(place.api, defaults=settings(**allowing(pool))), run)
    result = await launch(launcher_of(place.api), run, launch=2, attempt=2)
    assert (result.state, result.reason) == (LaunchState.WAITING, Reason.CONFIG_NOT_READY)
    for name in ("nodeSelector", "affinity", "priorityClassName", "runtimeClassName"):
        assert f"spec.{name}" in result.message
    assert "allowed in this installation: none (setting allowedNodeLabels)" in result.message
    assert result.message.endswith("; and more problems")


async def test_a_job_that_is_started_keeps_the_nodes_that_a_queue_has_chosen(
    place: Place, pool: str
) -> None:
    """Kueue admits a Job with the node selector and the tolerations of a flavor, beside those of
    the Job."""
    stored = await place.api.get(CONFIGS, place.namespace, await place.config(**placed_in(pool)))
    run = await place.run("iris")
    compiled = compile_run(run, parse_config(stored), defaults=Defaults(), runner_account="")
    body = manifests.job(
        run.ref, compiled, installation="tests", launch=1, attempt=1, seconds_left=None
    )
    created = await place.api.create(
        JOBS, place.namespace, {**body, "spec": {**body["spec"], "suspend": True}}
    )
    name, flavor = created["metadata"]["name"], {"key": "flavor", "operator": "Exists"}
    spec = created["spec"]["template"]["spec"]
    chosen = {
        "nodeSelector": {**spec["nodeSelector"], "flavor": "spot"},
        "tolerations": [*spec["tolerations"], flavor],
    }
    await place.api.patch(
        JOBS, place.namespace, name, {"spec": {"suspend": False, "template": {"spec": chosen}}}
    )
    await start_job(place.api, created)
    started = await place.job(name)
    assert started["spec"]["parallelism"] == 1
    assert started["spec"]["template"]["spec"].items() >= chosen.items()


async def test_a_value_that_kubernetes_does_not_accept_is_reported_by_the_run(place: Place) -> None:
    config = await place.config(nodeSelector={"-a": "b"})
    result = await launch(
        launcher_of(place.api, defaults=settings(allowedNodeLabels="*=*")), await place.run(config)
    )
    assert result.reason is Reason.INVALID_SPEC
    assert "nodeSelector" in result.message
