"""`inferrun migrate` on a real API server, from objects as the earlier Go controller wrote them,
with our shim beside it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from temporalio.client import Client

from campaigns.benchmarks.control_plane import ControlPlane
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import JOBS, RUNS, Object
from inferrun.names import schedule_id
from inferrun.resources import InferenceRun
from inferrun_krateo.migrate import CRON_JOBS, apply_due, read_plan
from inferrun_krateo.migration import ANNOTATION_SUSPENDED
from tests.integration.cli.stage import Printed, run_command
from tests.integration.shim.conftest import StartShim
from tests.integration.shim.krateo import Krateo
from tests.integration.shim.runs import read, workflow_status
from tests.integration.waiting import until

pytestmark = pytest.mark.thorough

Migrate = Callable[..., Printed]


@pytest.fixture
async def krateo(api: KubeClient, namespace: str) -> Krateo:
    """The earlier controller, with a config."""
    made = Krateo(api, namespace)
    await made.config()
    return made


@pytest.fixture
def migrate(plane: ControlPlane, namespace: str) -> Migrate:
    """Runs the command for the namespace."""

    def run(*words: str) -> Printed:
        return run_command(
            "migrate", *words, "-n", namespace, "--kubeconfig", str(plane.kubeconfig)
        )

    return run


async def finished(krateo: Krateo, name: str, **how: Any) -> InferenceRun:
    """A run whose Job has ended."""
    run = await krateo.run(name)
    await krateo.ends(await krateo.job(run), **how)
    return run


async def scheduled(
    krateo: Krateo, name: str = "hourly", *, schedule: str = "1 * * * *"
) -> InferenceRun:
    return await krateo.run(name, schedule=schedule)


async def versions(api: KubeClient, namespace: str) -> dict[str, str]:
    """The versions of all objects that a migration may change."""
    items: list[Object] = []
    for resource in (RUNS, JOBS, CRON_JOBS):
        items += (await api.list(resource, namespace))["items"]
    return {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in items}


def outcome(run: InferenceRun) -> tuple[str | None, str | None]:
    return run.status.phase, run.status.reason


async def test_a_dry_run_prints_what_would_be_done_and_changes_nothing(
    api: KubeClient, namespace: str, krateo: Krateo, migrate: Migrate
) -> None:
    await finished(krateo, "done")
    await krateo.job(await krateo.run("busy"))
    await krateo.cron_job(await scheduled(krateo))
    before = await versions(api, namespace)
    printed = migrate("--dry-run")
    assert (printed.code, printed.err) == (0, "")
    assert "Succeeded/Succeeded" in printed.line("record ")
    assert "still running" in printed.line(f"{namespace}/busy")
    assert "CronJob" in printed.line("suspend ")
    assert "'1 * * * *' starts" in printed.line("hand over")
    assert "inferrun copy-secret finops-database-handler-endpoint" in printed.line("to do")
    assert "nothing was changed" in printed.out
    assert await versions(api, namespace) == before


@pytest.mark.parametrize(
    ("how", "expected", "code"),
    [
        ({"code": 0}, ("Succeeded", "Succeeded"), 0),
        ({"code": 4}, ("Failed", "InferenceFailed"), 4),
        ({"code": None}, ("Failed", "RunnerFailed"), None),
        ({"code": 143, "reason": "DeadlineExceeded"}, ("Failed", "DeadlineExceeded"), 143),
    ],
)
async def test_the_outcome_of_a_finished_run_is_recorded_from_its_job(
    *,
    api: KubeClient,
    krateo: Krateo,
    migrate: Migrate,
    how: dict[str, Any],
    expected: tuple[str, str],
    code: int | None,
) -> None:
    run = await finished(krateo, "done", **how)
    assert migrate("--apply").code == 0
    recorded = await read(api, run)
    assert outcome(recorded) == expected
    assert recorded.status.exit_code == code
    assert recorded.status.delivery == "Unknown"
    assert recorded.status.duration == "1m30s"
    assert recorded.status.contract == run.status.contract
    assert wellknown.LEGACY_FINALIZER not in recorded.metadata.finalizers


async def test_a_run_whose_job_is_gone_is_never_executed_again(
    *, api: KubeClient, krateo: Krateo, migrate: Migrate, temporal: Client, start_shim: StartShim
) -> None:
    gone, done = await krateo.run("gone"), await finished(krateo, "done")
    async with start_shim(resync_seconds=1):
        assert migrate("--apply").code == 0
        assert outcome(await read(api, gone)) == ("Failed", "OutcomeUnknown")
        await asyncio.sleep(3)  # several resyncs
    for run in (gone, done):
        assert await workflow_status(temporal, run) is None


async def test_a_schedule_passes_from_its_cron_job_to_temporal(
    *,
    api: KubeClient,
    namespace: str,
    krateo: Krateo,
    migrate: Migrate,
    temporal: Client,
    start_shim: StartShim,
) -> None:
    run = await scheduled(krateo)
    cron_job = await krateo.cron_job(run)
    async with start_shim():
        assert migrate("--apply").code == 0
        await until(lambda: read(api, run), lambda found: found.status.phase == "Scheduled")
    stored = await api.get(CRON_JOBS, namespace, cron_job["metadata"]["name"])
    assert stored["spec"]["suspend"] is True
    assert ANNOTATION_SUSPENDED in stored["metadata"]["annotations"]
    described = await temporal.get_schedule_handle(schedule_id(run.ref)).describe()
    assert not described.schedule.state.paused
    assert wellknown.LEGACY_FINALIZER not in (await read(api, run)).metadata.finalizers
    before = await versions(api, namespace)
    again = migrate("--apply")
    assert (again.code, await versions(api, namespace)) == (0, before)


async def test_a_schedule_starts_only_when_the_last_job_of_the_cron_job_has_ended(
    api: KubeClient, krateo: Krateo, migrate: Migrate, namespace: str
) -> None:
    run = await scheduled(krateo)
    cron_job = await krateo.cron_job(run)
    job = await krateo.job_of(cron_job, run)
    assert migrate("--apply").code == 1
    stored = await api.get(CRON_JOBS, namespace, cron_job["metadata"]["name"])
    assert stored["spec"]["suspend"] is True
    assert (await read(api, run)).status.contract
    assert (await api.get(JOBS, namespace, job["metadata"]["name"]))["metadata"]["uid"] == job[
        "metadata"
    ]["uid"]
    await krateo.ends(job)
    assert migrate("--apply").code == 0
    assert (await read(api, run)).status.contract is None


async def test_an_interrupted_migration_continues(
    api: KubeClient, namespace: str, krateo: Krateo, migrate: Migrate
) -> None:
    run = await scheduled(krateo)
    cron_job = await krateo.cron_job(run)
    done: list[str] = []
    await apply_due(await read_plan(api, namespace=namespace), api, report=done.append)
    assert [line.split(":")[0] for line in done] == ["suspend"]
    assert (await read(api, run)).status.contract
    assert migrate("--apply").code == 0
    after = await read(api, run)
    assert (after.status.contract, after.spec.suspend) == (None, None)
    stored = await api.get(CRON_JOBS, namespace, cron_job["metadata"]["name"])
    assert stored["spec"]["suspend"] is True


async def test_nothing_is_changed_while_the_earlier_controller_is_running(
    api: KubeClient, namespace: str, krateo: Krateo, migrate: Migrate
) -> None:
    await finished(krateo, "done")
    await krateo.is_running()
    before = await versions(api, namespace)
    printed = migrate("--apply")
    assert printed.code == 1
    assert "error: the earlier controller is still running" in printed.err
    assert f"kubectl -n {namespace} scale deployment kserve-controller --replicas=0" in printed.err
    assert await versions(api, namespace) == before
    await krateo.stops()
    assert migrate("--dry-run").code == 0


async def test_a_deleted_run_loses_the_earlier_controllers_finalizer(
    api: KubeClient, namespace: str, krateo: Krateo, migrate: Migrate
) -> None:
    run = await finished(krateo, "done")
    await api.delete(RUNS, namespace, run.metadata.name, uid=run.metadata.uid)
    assert migrate("--apply").code == 0
    with pytest.raises(NotFound):
        await read(api, run)
