"""A week of nightly runs in fast motion: schedules that fire every minute have their seven nights
in seven minutes."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest

from campaigns.benchmarks.processes import memory_mib
from campaigns.faults.node import Container
from campaigns.faults.scenarios import success_message
from campaigns.faults.users import create_config, create_run
from campaigns.faults.world import Installation, World, until, world
from control.informer import Informer
from inferrun import wellknown
from inferrun.kube.objects import LEASES, RUNS
from operator_shim.run_terms import has_ended

pytestmark = pytest.mark.thorough

NAMESPACE = "weekly"
SCHEDULES = 50
KEPT = 2
SETTLED_NIGHT = 4
"""After it, as many runs are kept as ever will be."""

NIGHTS = 7
SECONDS = 600
MEMORY_MIB = 32
"""By which a program may grow from 200 runs to 350: the worker's caches still fill (11 MiB at most
were measured)."""


async def test_a_week_of_nightly_runs_leaves_no_more_than_four_nights(tmp_path: Path) -> None:
    async with (
        world(tmp_path, behave=lambda *_: Container(message=success_message())) as ground,
        ground.installation(NAMESPACE) as installation,
    ):
        await create_config(ground.api, NAMESPACE, "iris")
        for number in range(SCHEDULES):
            await create_run(
                ground.api,
                NAMESPACE,
                f"s{number}",
                config="iris",
                schedule="* * * * *",
                successfulJobsHistoryLimit=KEPT,
            )
        await _night(ground, SETTLED_NIGHT)
        before, memory = await _left(ground), _memory(installation)
        assert before["InferenceRun"] == SCHEDULES * (1 + KEPT)

        await _night(ground, NIGHTS)

        assert await _left(ground) == before
        grown = {name: now - memory[name] for name, now in _memory(installation).items()}
        assert max(grown.values()) < MEMORY_MIB, f"MiB: {memory} and {grown} more"
        assert [program.ends for program in installation.programs] == [[], []]


async def _night(ground: World, number: int) -> None:
    """Wait until all runs of so many nights have ended, and those that are not kept are gone, with
    their objects."""

    async def is_over() -> bool:
        runs = [item for _, item in ground.recorder.runs.items()]
        times = [
            ((run.get("status") or {}).get("times") or {}).get("started", 0)
            for run in runs
            if _fires(run)
        ]
        children = [run for run in runs if not _fires(run)]
        is_quiet = len(children) <= SCHEDULES * KEPT and all(has_ended(run) for run in children)
        present = [
            _run_uids(one)
            for one in (ground.recorder.jobs, ground.recorder.pods, ground.recorder.config_maps)
        ]
        is_quiet = is_quiet and set().union(*present) <= {
            run["metadata"]["uid"] for run in children
        }
        return (
            is_quiet
            and len(times) == SCHEDULES
            and min(times) >= number
            and not await _open_workflows(ground)
        )

    await until(f"night {number} is over", is_over, seconds=SECONDS)


def _fires(run: Mapping[str, Mapping[str, object]]) -> bool:
    return run["spec"].get("schedule") is not None


def _run_uids(informer: Informer) -> set[str]:
    labels = [item["metadata"].get("labels") or {} for _, item in informer.items()]
    return {found[wellknown.LABEL_RUN_UID] for found in labels if wellknown.LABEL_RUN_UID in found}


async def _open_workflows(ground: World) -> int:
    return (await ground.temporal.count_workflows("ExecutionStatus = 'Running'")).count


async def _left(ground: World) -> dict[str, object]:
    """What exists, by kind: objects of Kubernetes and of Temporal."""
    known = await ground.temporal.operator_service.list_search_attributes(
        ListSearchAttributesRequest(namespace="default")
    )
    watched = (ground.recorder.jobs, ground.recorder.pods, ground.recorder.config_maps)
    schedules = [one.id async for one in await ground.temporal.list_schedules()]
    return {
        "InferenceRun": len((await ground.api.list(RUNS, NAMESPACE))["items"]),
        "Job, Pod, ConfigMap": [len(informer.keys()) for informer in watched],
        "Lease": len((await ground.api.list(LEASES, NAMESPACE))["items"]),
        "schedule": len(schedules),
        "search attribute": sorted(known.custom_attributes),
    }


def _memory(installation: Installation) -> dict[str, float]:
    found = {program.name: program.process for program in installation.programs}
    return {
        name: memory_mib(process.pid, "VmRSS")
        for name, process in found.items()
        if process is not None
    }
