"""`LaunchJob` of a run that reads the output of another one, on a real API server; no Pod has to run."""

import base64
import json
from typing import Any

import pytest

from activities.launch_job import JobLauncher
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import CONFIG_MAPS, CONFIGS, JOBS, RUNS
from inferrun.names import job_base_name, scheduled_run_name
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun, parse_run
from tests.integration.control.conftest import LEFT_ALONE, MakeConfig, MakeRun
from tests.integration.control.pods import IMAGE, launch, launcher_of
from workflows.messages import LaunchState

OUTPUT = {"file": {"claimName": "made", "path": "out"}}
OWN = {"file": {"claimName": "own", "path": "out"}}
CONTRACT = base64.b64encode(json.dumps({"jobId": "u", "jobName": "j", "output": OUTPUT}).encode()).decode()
SUCCEEDED: dict[str, Any] = {
    "phase": "Succeeded",
    "reason": "Succeeded",
    "message": "5 of 5 records predicted",
    "contract": CONTRACT,
    "output": {"location": "made/out/x", "manifest": "made/out/x/manifest.json", "sha256": "ab" * 32},
}
FAILED = {"phase": "Failed", "reason": "InferenceFailed", "message": "the model is gone", "contract": CONTRACT}


@pytest.fixture
def launcher(api: KubeClient) -> JobLauncher:
    return launcher_of(api, runner_image=IMAGE)


def reading(**given: str) -> dict[str, Any]:  # Any: a storage
    return {"input": {"run": given}, "output": OWN}


async def status_of(api: KubeClient, run: InferenceRun) -> dict[str, Any]:  # Any: JSON
    return dict((await api.get(RUNS, run.metadata.namespace, run.metadata.name)).get("status") or {})


async def write(api: KubeClient, run: InferenceRun, status: dict[str, Any]) -> None:  # Any: JSON
    await api.patch(RUNS, run.metadata.namespace, run.metadata.name, {"status": status}, sub="status")


async def create(api: KubeClient, namespace: str, name: str, **spec: Any) -> InferenceRun:  # Any: fields of a spec
    metadata = {"name": name, "namespace": namespace, "annotations": LEFT_ALONE}
    body = {"apiVersion": "ai.krateo.io/v1", "kind": "InferenceRun", "metadata": metadata}
    return parse_run(await api.create(RUNS, namespace, {**body, "spec": {"configRef": {"name": "iris"}, **spec}}))


async def contract_of(api: KubeClient, run: InferenceRun) -> dict[str, Any]:  # Any: JSON
    name = job_base_name(run.metadata.name, run.metadata.uid)
    stored = await api.get(CONFIG_MAPS, run.metadata.namespace, name)
    found: dict[str, Any] = json.loads(stored["data"]["contract.json"])
    return found


async def test_a_run_waits_for_the_run_whose_output_it_reads_and_then_reads_that_output(
    launcher: JobLauncher, api: KubeClient, make_run: MakeRun, make_config: MakeConfig
) -> None:
    first = await make_run(status={"phase": "Running", "reason": "Running"})
    name, uid = first.metadata.name, first.metadata.uid
    second = await make_run(configRef={"name": await make_config(storage=reading(name=name))})
    waiting = await launch(launcher, second)
    status = await status_of(api, second)
    assert (waiting.state, waiting.reason) == (LaunchState.WAITING, Reason.WAITING_FOR_RUN)
    assert (status["phase"], status["reason"]) == ("Pending", "WaitingForRun")
    assert status["message"].startswith(f"InferenceRun {name}, whose output is the input, is Running (Running)")
    assert status["inputRun"] == {"name": name, "uid": uid, "phase": "Running"}
    await write(api, first, SUCCEEDED)
    launched = await launch(launcher, second)
    assert launched.state is LaunchState.LAUNCHED, launched.message
    contract, status = await contract_of(api, second), await status_of(api, second)
    assert contract["input"] == {"run": {"name": name}}
    assert contract["inputRun"] == {
        "name": name,
        "runId": uid,
        "jobName": job_base_name(name, uid),
        "manifestSha256": "ab" * 32,
        "output": OUTPUT,
    }
    assert status["inputRun"] == {"name": name, "uid": uid, "phase": "Succeeded"}
    job = await api.get(JOBS, second.metadata.namespace, launched.job_name)
    claims = [one.get("persistentVolumeClaim") for one in job["spec"]["template"]["spec"]["volumes"]]
    assert [one["claimName"] for one in claims if one] == ["made", "own"]


async def test_a_retry_reads_the_same_output_whatever_became_of_that_run(
    launcher: JobLauncher, api: KubeClient, make_run: MakeRun, make_config: MakeConfig, namespace: str
) -> None:
    first = await make_run(status=SUCCEEDED)
    storage = reading(name=first.metadata.name)
    second = await make_run(configRef={"name": await make_config(storage=storage)})
    await launch(launcher, second)
    before = await contract_of(api, second)
    await api.delete(RUNS, namespace, first.metadata.name, uid=first.metadata.uid)
    await create(api, namespace, first.metadata.name)
    again = await launch(launcher, second, launch=2, attempt=2)
    assert again.state is LaunchState.LAUNCHED, again.message
    assert await contract_of(api, second) == before
    await write(api, second, {"phase": "Failed", "reason": "InferenceFailed", "message": ""})
    third = await make_run(configRef={"name": await make_config(storage=storage)}, retryOf=second.metadata.name)
    retried = await launch(launcher, third)
    assert retried.state is LaunchState.LAUNCHED, retried.message
    assert (await contract_of(api, third))["inputRun"] == before["inputRun"]


async def test_a_run_that_has_started_reads_the_same_output_even_without_its_config_map(
    launcher: JobLauncher, api: KubeClient, make_run: MakeRun, make_config: MakeConfig, namespace: str
) -> None:
    first = await make_run(status=SUCCEEDED)
    second = await make_run(configRef={"name": await make_config(storage=reading(name=first.metadata.name))})
    await launch(launcher, second)
    before = await contract_of(api, second)
    name = job_base_name(second.metadata.name, second.metadata.uid)
    stored = await api.get(CONFIG_MAPS, namespace, name)
    await api.delete(CONFIG_MAPS, namespace, name, uid=stored["metadata"]["uid"])
    await api.delete(RUNS, namespace, first.metadata.name, uid=first.metadata.uid)
    again = await launch(launcher, second, launch=2, attempt=2)
    assert again.state is LaunchState.LAUNCHED, again.message
    assert await contract_of(api, second) == before


async def test_a_run_that_was_deleted_is_waited_for_because_it_may_be_created_again(
    launcher: JobLauncher, api: KubeClient, make_run: MakeRun, make_config: MakeConfig, namespace: str
) -> None:
    first = await make_run(status={"phase": "Running", "reason": "Running"})
    second = await make_run(configRef={"name": await make_config(storage=reading(name=first.metadata.name))})
    await launch(launcher, second)
    await api.delete(RUNS, namespace, first.metadata.name, uid=first.metadata.uid)
    waiting = await launch(launcher, second)
    assert (waiting.state, waiting.reason) == (LaunchState.WAITING, Reason.WAITING_FOR_RUN)
    assert "does not exist; this run starts when it has succeeded" in waiting.message
    assert (await status_of(api, second))["inputRun"] == {"name": first.metadata.name}


async def test_a_run_reads_the_run_of_a_schedule_for_the_end_of_its_interval(
    launcher: JobLauncher, api: KubeClient, make_run: MakeRun, make_config: MakeConfig, namespace: str
) -> None:
    nightly = await make_run(schedule="0 0 * * *", timeZone="Europe/Rome", suspend=True)
    config = await make_config(storage=reading(schedule=nightly.metadata.name))
    span = {"start": "2026-11-20T00:00:00+01:00", "end": "2026-11-21T00:00:00+01:00"}
    second = await make_run(configRef={"name": config}, interval=span)
    name = scheduled_run_name(nightly.metadata.name, "2026-11-20T23:00:00Z")
    waiting = await launch(launcher, second)
    assert waiting.reason is Reason.WAITING_FOR_RUN
    assert f"InferenceRun {name}, whose output is the input, does not exist: schedule" in waiting.message
    assert "has not created it yet, or it was deleted (successfulJobsHistoryLimit is 3)" in waiting.message
    await write(api, await create(api, namespace, name), SUCCEEDED)
    assert (await launch(launcher, second)).state is LaunchState.LAUNCHED
    assert (await contract_of(api, second))["inputRun"]["name"] == name


async def test_runs_that_would_wait_for_each_other_are_refused(
    launcher: JobLauncher, api: KubeClient, make_run: MakeRun, make_config: MakeConfig, namespace: str
) -> None:
    config = await make_config(storage=reading(name="to-be-set"))
    second = await make_run(configRef={"name": config})
    third = await make_run(configRef={"name": await make_config(storage=reading(name=second.metadata.name))})
    assert (await launch(launcher, third)).reason is Reason.WAITING_FOR_RUN
    storage = {"storage": {"input": {"run": {"name": third.metadata.name}}}}
    await api.patch(CONFIGS, namespace, config, {"spec": storage})
    refused = await launch(launcher, second)
    assert (refused.state, refused.reason) == (LaunchState.REFUSED, Reason.INVALID_SPEC)
    names = [run.metadata.name for run in (second, third, second)]
    assert f"the run would wait for itself: {' reads '.join(names)};" in refused.message
    await write(api, second, {"phase": "Failed", "reason": "InvalidSpec", "message": refused.message})
    failed = await launch(launcher, third)
    assert (failed.state, failed.reason) == (LaunchState.REFUSED, Reason.INPUT_RUN_FAILED)
    assert "failed: InvalidSpec: the run would wait for itself" in failed.message


async def test_a_run_that_waits_for_its_model_names_the_run_that_it_will_read(
    launcher: JobLauncher, api: KubeClient, make_run: MakeRun, make_config: MakeConfig
) -> None:
    first = await make_run(status=SUCCEEDED)
    kserve = {"serviceRef": {"kind": "InferenceService", "name": "nowhere"}}
    config = await make_config(storage=reading(name=first.metadata.name), kserve=kserve)
    second = await make_run(configRef={"name": config})
    waiting = await launch(launcher, second)
    assert waiting.reason in (Reason.MODEL_NOT_READY, Reason.KSERVE_NOT_INSTALLED)
    seen = {"name": first.metadata.name, "uid": first.metadata.uid, "phase": "Succeeded"}
    assert (await status_of(api, second))["inputRun"] == seen
