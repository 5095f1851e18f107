"""A run that the worker's watch has delivered is launched without being read; the watch may be behind."""

import asyncio
import json
from secrets import token_hex

import pytest
from temporalio.testing import ActivityEnvironment

from activities.cluster.new_runs import NewRuns
from activities.launch_job import JobLauncher
from inferrun.control.run_defaults import Defaults
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import CONFIG_MAPS, CONFIGS, JOBS, RUNS, Object
from inferrun.kube.runs import RunStore
from inferrun.resources import InferenceRun
from tests.integration.control.conftest import MakeConfig, MakeRun
from tests.integration.control.proxy import Proxy
from tests.integration.control.test_launch_job import INSTALLATION, base_of
from workflows.messages import LaunchInput, LaunchResult, LaunchState, Woken


class Launches:
    """Launches runs as this worker's watch has delivered them."""

    def __init__(self, api: KubeClient) -> None:
        self.api = api
        self._new_runs = NewRuns()
        self._launcher = JobLauncher(
            api, RunStore(api), installation=INSTALLATION, defaults=Defaults, runner_account="", new_runs=self._new_runs
        )

    async def stored(self, run: InferenceRun) -> Object:
        """The run as the API server has it."""
        return await self.api.get(RUNS, run.metadata.namespace, run.metadata.name)

    def deliver(self, stored: Object) -> None:
        """The watch delivers the run."""
        self._new_runs.observe(stored, now=asyncio.get_running_loop().time())

    async def launch(self, run: InferenceRun, *, woken: Woken | None = None, is_repeated: bool = False) -> LaunchResult:
        """The first launch of the run, or a later try of it."""
        request = LaunchInput(run=run.ref, woken=woken, is_repeated=is_repeated)
        result: LaunchResult = await ActivityEnvironment().run(self._launcher.launch_job, request)
        return result

    async def has_job(self, run: InferenceRun) -> bool:
        """Whether there is a Job of the first launch."""
        try:
            await self.api.get(JOBS, run.metadata.namespace, base_of(run))
        except NotFound:
            return False
        return True


@pytest.fixture
def launches(api: KubeClient) -> Launches:
    return Launches(api)


async def test_a_new_run_is_not_read_and_runs_that_were_seen_together_share_one_read_of_their_config(
    launches: Launches, proxy: Proxy, make_run: MakeRun, make_config: MakeConfig
) -> None:
    config = await make_config()
    runs = [await make_run(configRef={"name": config}) for _ in range(3)]
    for run in runs:
        launches.deliver(await launches.stored(run))
    before = len(proxy.requests)
    for run in runs:
        assert (await launches.launch(run)).state is LaunchState.LAUNCHED
    made = [
        (request.method, [part for part in request.path.split("/") if part in ("configmaps", "jobs", "status")])
        for request in proxy.requests[before:]
    ]
    writes = [("POST", ["configmaps"]), ("POST", ["jobs"]), ("PATCH", ["status"]), ("PATCH", ["jobs"])]
    assert made == [("GET", []), *writes, *writes, *writes]
    assert proxy.requests[before].path.endswith(f"/inferenceconfigs/{config}")


async def test_runs_that_have_waited_are_read_and_share_the_read_of_their_config_if_they_are_launched_together(
    launches: Launches, proxy: Proxy, make_run: MakeRun, make_config: MakeConfig
) -> None:
    config = await make_config()
    runs = [await make_run(configRef={"name": config}) for _ in range(3)]
    before = len(proxy.requests)
    launched = await asyncio.gather(*(launches.launch(run) for run in runs))
    assert [result.state for result in launched] == [LaunchState.LAUNCHED] * 3
    read = [request.path for request in proxy.requests[before:] if request.method == "GET"]
    assert sum("/inferenceruns/" in path for path in read) == 3
    assert sum(path.endswith(f"/inferenceconfigs/{config}") for path in read) == 1


async def test_runs_that_were_woken_for_the_same_cause_are_not_read_and_share_one_read_of_their_config(
    launches: Launches, proxy: Proxy, make_run: MakeRun, make_config: MakeConfig, namespace: str
) -> None:
    late = f"late-{token_hex(4)}"
    runs = [await make_run(configRef={"name": late}) for _ in range(3)]
    for run in runs:
        launches.deliver(await launches.stored(run))
        assert (await launches.launch(run)).state is LaunchState.WAITING
        launches.deliver(await launches.stored(run))
    template = await launches.api.get(CONFIGS, namespace, await make_config())
    metadata = {"name": late, "annotations": template["metadata"]["annotations"]}
    await launches.api.create(CONFIGS, namespace, {**template, "metadata": metadata})
    before = len(proxy.requests)
    woken = Woken(cause=f"InferenceConfig {namespace}/{late} 1", generation=1)
    for run in runs:
        assert (await launches.launch(run, woken=woken, is_repeated=True)).state is LaunchState.LAUNCHED
    read = [request.path for request in proxy.requests[before:] if request.method == "GET"]
    assert [path.rpartition("/")[2] for path in read] == [late]


@pytest.mark.parametrize(
    "woken",
    [None, Woken(cause="InferenceConfig models/late 1", generation=2), Woken(cause="InferenceConfig models/late 1")],
    ids=["unknown", "newer", "no generation"],
)
async def test_a_run_that_has_waited_is_read_unless_the_watch_has_delivered_what_its_waker_has_seen(
    launches: Launches, proxy: Proxy, make_run: MakeRun, make_config: MakeConfig, woken: Woken | None
) -> None:
    """It was edited while it waited, and the watch is behind."""
    run = await make_run(configRef={"name": "absent"}, parameters={"table": "old"})
    assert (await launches.launch(run)).state is LaunchState.WAITING
    launches.deliver(await launches.stored(run))
    edit = {"spec": {"configRef": {"name": await make_config()}, "parameters": {"table": "new"}}}
    await launches.api.patch(RUNS, run.metadata.namespace, run.metadata.name, edit)
    before = len(proxy.requests)
    assert (await launches.launch(run, woken=woken, is_repeated=True)).state is LaunchState.LAUNCHED
    assert proxy.requests[before].path.endswith(f"/inferenceruns/{run.metadata.name}")
    stored = await launches.api.get(CONFIG_MAPS, run.metadata.namespace, base_of(run))
    assert json.loads(stored["data"]["contract.json"])["parameters"] == {"table": "new"}


async def test_a_try_after_one_that_had_to_wait_reads_what_has_changed_although_the_watch_is_behind(
    launches: Launches, make_run: MakeRun, make_config: MakeConfig, namespace: str
) -> None:
    """The watch has not delivered that the run waits, so that it looks new; the read of its config is older than the correction."""
    config = await make_config(serviceAccountName="somebody-else")
    run = await make_run(configRef={"name": config})
    launches.deliver(await launches.stored(run))
    assert (await launches.launch(run)).state is LaunchState.WAITING
    await launches.api.patch(CONFIGS, namespace, config, {"spec": {"serviceAccountName": None}})
    assert (await launches.launch(run, is_repeated=True)).state is LaunchState.LAUNCHED


async def test_a_run_is_launched_with_the_config_as_it_was_when_the_run_was_created(
    launches: Launches, make_run: MakeRun, make_config: MakeConfig, namespace: str
) -> None:
    config = await make_config()
    for image in ("first:1", "second:1"):
        await launches.api.patch(CONFIGS, namespace, config, {"spec": {"image": image}})
        run = await make_run(configRef={"name": config})
        launches.deliver(await launches.stored(run))
        await launches.launch(run)
        job = await launches.api.get(JOBS, namespace, base_of(run))
        assert job["spec"]["template"]["spec"]["containers"][0]["image"] == image


async def test_a_new_run_whose_end_was_recorded_meanwhile_gets_no_job(
    launches: Launches, make_run: MakeRun, make_config: MakeConfig, namespace: str
) -> None:
    run = await make_run(configRef={"name": await make_config()})
    launches.deliver(await launches.stored(run))
    ended = {"phase": "Failed", "reason": "Cancelled", "message": "the run was cancelled"}
    await launches.api.patch(RUNS, namespace, run.metadata.name, {"status": ended}, sub="status")
    assert (await launches.launch(run)).state is LaunchState.TERMINAL
    assert not await launches.has_job(run)


async def test_a_new_run_that_was_deleted_meanwhile_gets_no_job(
    launches: Launches, make_run: MakeRun, make_config: MakeConfig, namespace: str
) -> None:
    run = await make_run(configRef={"name": await make_config()})
    launches.deliver(await launches.stored(run))
    await launches.api.delete(RUNS, namespace, run.metadata.name, uid=run.metadata.uid)
    assert (await launches.launch(run)).state is LaunchState.GONE
    assert not await launches.has_job(run)


async def test_a_job_that_another_workflow_launched_meanwhile_is_not_created_a_second_time(
    launches: Launches, make_run: MakeRun, make_config: MakeConfig, namespace: str
) -> None:
    """The watch is behind: it has delivered neither the other launch nor the deletion of its Job."""
    run = await make_run(configRef={"name": await make_config()})
    before = await launches.stored(run)
    first = await launches.launch(run)
    await launches.api.delete(JOBS, namespace, first.job_name, uid=first.job_uid)
    launches.deliver(before)
    second = await launches.launch(run)
    assert (second.job_uid, second.is_adopted) == (first.job_uid, True)
    assert not await launches.has_job(run)
