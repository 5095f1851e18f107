"""What the Job of a run gets that is only checked, or that may have only so many errors."""

import json
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from activities.launching.launch_job import JobLauncher
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import CONFIG_MAPS, JOBS
from inferrun.kube.runs import RunStore
from inferrun.names import job_base_name
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun
from inferrun.run_defaults import Defaults
from tests.integration.control.conftest import INSTALLATION, MakeConfig, MakeRun
from workflows.messages import LaunchInput, LaunchResult, LaunchState

pytestmark = pytest.mark.thorough

OURS = Defaults(runner_image="localhost/inferrun-tests/absent:1")
"""The image that the configs of these tests name counts as the built-in runner."""


async def launch(api: KubeClient, run: InferenceRun, *, defaults: Defaults = OURS) -> LaunchResult:
    launcher = JobLauncher(
        api,
        RunStore(api),
        installation=INSTALLATION,
        defaults=lambda: defaults,
        runner_account="",
    )
    result: LaunchResult = await ActivityEnvironment().run(launcher.launch_job, LaunchInput(run=run.ref))
    return result


async def contract_of(api: KubeClient, run: InferenceRun) -> dict[str, Any]:  # Any: JSON
    name = job_base_name(run.metadata.name, run.metadata.uid)
    stored = await api.get(CONFIG_MAPS, run.metadata.namespace, name)
    contract: dict[str, Any] = json.loads(stored["data"]["contract.json"])  # Any: JSON
    return contract


async def test_the_threshold_of_the_run_and_the_canary_of_the_config_reach_the_runner(
    api: KubeClient, make_run: MakeRun, make_config: MakeConfig
) -> None:
    config = await make_config(errorThreshold=7, canaryRecords=100)
    run = await make_run(configRef={"name": config}, errorThreshold="0.5%")
    assert (await launch(api, run)).state is LaunchState.LAUNCHED
    contract = await contract_of(api, run)
    assert (contract["errorThreshold"], contract["canaryRecords"]) == ("0.5%", 100)


async def test_a_run_that_asks_for_nothing_new_has_the_contract_of_the_older_controller(
    api: KubeClient, make_run: MakeRun, make_config: MakeConfig
) -> None:
    run = await make_run(configRef={"name": await make_config()}, parameters={"a": "1"})
    await launch(api, run)
    assert set(await contract_of(api, run)) == {
        "jobId",
        "jobName",
        "runId",
        "kserve",
        "input",
        "output",
        "parameters",
    }


async def test_a_dry_run_is_launched_with_the_built_in_runner(
    api: KubeClient, make_run: MakeRun, make_config: MakeConfig
) -> None:
    run = await make_run(configRef={"name": await make_config()}, dryRun=True)
    assert (await launch(api, run)).state is LaunchState.LAUNCHED
    assert (await contract_of(api, run))["dryRun"] is True


async def test_an_image_that_would_execute_a_dry_run_gets_no_job(
    api: KubeClient, make_run: MakeRun, make_config: MakeConfig
) -> None:
    run = await make_run(configRef={"name": await make_config()}, dryRun=True)
    result = await launch(api, run, defaults=Defaults())
    assert (result.state, result.reason) == (LaunchState.REFUSED, Reason.INVALID_SPEC)
    assert "spec.dryRun" in result.message
    with pytest.raises(NotFound):
        await api.get(JOBS, run.metadata.namespace, job_base_name(run.metadata.name, run.metadata.uid))


FILES = {
    "input": {"file": {"claimName": "data", "path": "in.jsonl"}},
    "output": {"file": {"claimName": "data", "path": "out"}},
}


async def test_a_retry_names_the_ended_run_in_its_contract(
    api: KubeClient, make_run: MakeRun, make_config: MakeConfig
) -> None:
    config = await make_config(storage=FILES)
    before = await make_run(configRef={"name": config}, status={"phase": "Failed", "reason": "InferenceFailed"})
    run = await make_run(configRef={"name": config}, retryOf=before.metadata.name)
    result = await launch(api, run)
    assert result.state is LaunchState.LAUNCHED, result.message
    assert (await contract_of(api, run))["retryOf"] == {
        "name": before.metadata.name,
        "runId": before.metadata.uid,
        "jobName": job_base_name(before.metadata.name, before.metadata.uid),
    }


async def test_a_run_that_does_not_exist_or_is_in_progress_is_not_retried(
    api: KubeClient, make_run: MakeRun, make_config: MakeConfig
) -> None:
    config = await make_config(storage=FILES)
    missing = await launch(api, await make_run(configRef={"name": config}, retryOf="nowhere"))
    assert (missing.state, missing.reason) == (LaunchState.REFUSED, Reason.INVALID_SPEC)
    assert 'spec.retryOf is "nowhere"; there is no such InferenceRun in namespace' in missing.message
    running = await make_run(configRef={"name": config}, status={"phase": "Running"})
    refused = await launch(api, await make_run(configRef={"name": config}, retryOf=running.metadata.name))
    assert (refused.state, refused.reason) == (LaunchState.REFUSED, Reason.INVALID_SPEC)
    assert "it is Running; only a run that has ended can be retried" in refused.message


async def test_a_run_of_several_shards_gets_an_indexed_job_that_a_second_try_recognises(
    api: KubeClient, make_run: MakeRun, make_config: MakeConfig
) -> None:
    config = await make_config(storage=FILES, shards=2, backoffLimit=5)
    run = await make_run(configRef={"name": config}, shards=3)
    first = await launch(api, run)
    assert first.state is LaunchState.LAUNCHED, first.message
    job = await api.get(JOBS, run.metadata.namespace, first.job_name)
    spec = job["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
    assert (spec["backoffLimitPerIndex"], spec["successPolicy"]) == (5, {"rules": [{"succeededCount": 1}]})
    again = await launch(api, run)
    assert (again.state, again.job_uid) == (LaunchState.LAUNCHED, first.job_uid), again.message


async def test_a_dry_run_of_several_shards_has_one_pod(
    api: KubeClient, make_run: MakeRun, make_config: MakeConfig
) -> None:
    run = await make_run(configRef={"name": await make_config(storage=FILES, shards=4)}, dryRun=True)
    launched = await launch(api, run)
    job = await api.get(JOBS, run.metadata.namespace, launched.job_name)
    assert (job["spec"]["completionMode"], job["spec"]["completions"]) == ("NonIndexed", 1)


async def test_a_run_that_cannot_be_divided_gets_no_job(
    api: KubeClient, make_run: MakeRun, make_config: MakeConfig
) -> None:
    refused = await launch(api, await make_run(configRef={"name": await make_config()}, shards=2))
    assert (refused.state, refused.reason) == (LaunchState.REFUSED, Reason.INVALID_SPEC)
    assert refused.message == (
        'spec.shards is "2"; more than 1 requires an input of the label file or s3, but spec.storage.input has own'
    )
