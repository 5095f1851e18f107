"""`LaunchJob` of a run that reads the output of another one, on a real API server; no Pod has to
run."""

import base64
import json
from typing import Any

import pytest

from activities.launch_job import JobLauncher
from inferrun.kube.client import KubeClient
from inferrun.names import job_base_name, scheduled_run_name
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun, parse_run
from tests.integration.control.place import Place
from tests.integration.control.pods import IMAGE, launcher_of
from workflows.messages import LaunchState

OUTPUT = {"file": {"claimName": "made", "path": "out"}}
OWN = {"file": {"claimName": "own", "path": "out"}}
CONTRACT = base64.b64encode(
    json.dumps({"jobId": "u", "jobName": "j", "output": OUTPUT}).encode()
).decode()
SUCCEEDED: dict[str, Any] = {
    "phase": "Succeeded",
    "reason": "Succeeded",
    "message": "5 of 5 records predicted",
    "contract": CONTRACT,
    "output": {
        "location": "made/out/x",
        "manifest": "made/out/x/manifest.json",
        "sha256": "ab" * 32,
    },
}
FAILED = {
    "phase": "Failed",
    "reason": "InferenceFailed",
    "message": "the model is gone",
    "contract": CONTRACT,
}


@pytest.fixture
def launcher(api: KubeClient) -> JobLauncher:
    return launcher_of(api, runner_image=IMAGE)


def reading(**given: str) -> dict[str, Any]:  # Any: a storage
    return {"input": {"run": given}, "output": OWN}


async def create(place: Place, name: str) -> InferenceRun:
    """Create a run of that name."""
    return parse_run(await place.create("InferenceRun", name, {"configRef": {"name": "iris"}}))


async def test_a_run_waits_for_the_run_whose_output_it_reads_and_then_reads_that_output(
    place: Place,
) -> None:
    first = await place.run("iris", status={"phase": "Running", "reason": "Running"})
    name, uid = first.metadata.name, first.metadata.uid
    second = await place.run(await place.config(storage=reading(name=name)))
    waiting = await place.launch(second)
    status = await place.status(second)
    assert (waiting.state, waiting.reason) == (LaunchState.WAITING, Reason.WAITING_FOR_RUN)
    assert (status["phase"], status["reason"]) == ("Pending", "WaitingForRun")
    assert status["message"].startswith(
        f"InferenceRun {name}, whose output is the input, is Running (Running)"
    )
    assert status["inputRun"] == {"name": name, "uid": uid, "phase": "Running"}
    await place.write_status(first, SUCCEEDED)
    launched = await place.launch(second)
    assert launched.state is LaunchState.LAUNCHED, launched.message
    contract, status = await place.contract(second), await place.status(second)
    assert contract["input"] == {"run": {"name": name}}
    assert contract["inputRun"] == {
        "name": name,
        "runId": uid,
        "jobName": job_base_name(name, uid),
        "manifestSha256": "ab" * 32,
        "output": OUTPUT,
    }
    assert status["inputRun"] == {"name": name, "uid": uid, "phase": "Succeeded"}
    job = await place.job(launched.job_name)
    claims = [
        one.get("persistentVolumeClaim") for one in job["spec"]["template"]["spec"]["volumes"]
    ]
    assert [one["claimName"] for one in claims if one] == ["made", "own"]


async def test_a_retry_reads_the_same_output_whatever_became_of_that_run(place: Place) -> None:
    first = await place.run("iris", status=SUCCEEDED)
    storage = reading(name=first.metadata.name)
    second = await place.run(await place.config(storage=storage))
    await place.launch(second)
    before = await place.contract(second)
    await place.delete(first)
    await create(place, first.metadata.name)
    again = await place.launch(second, launch=2, attempt=2)
    assert again.state is LaunchState.LAUNCHED, again.message
    assert await place.contract(second) == before
    await place.write_status(
        second, {"phase": "Failed", "reason": "InferenceFailed", "message": ""}
    )
    third = await place.run(await place.config(storage=storage), retryOf=second.metadata.name)
    retried = await place.launch(third)
    assert retried.state is LaunchState.LAUNCHED, retried.message
    assert (await place.contract(third))["inputRun"] == before["inputRun"]


async def test_a_run_that_has_started_reads_the_same_output_even_without_its_config_map(
    place: Place,
) -> None:
    first = await place.run("iris", status=SUCCEEDED)
    second = await place.run(await place.config(storage=reading(name=first.metadata.name)))
    await place.launch(second)
    before = await place.contract(second)
    await place.delete_config_map(second)
    await place.delete(first)
    again = await place.launch(second, launch=2, attempt=2)
    assert again.state is LaunchState.LAUNCHED, again.message
    assert await place.contract(second) == before


async def test_a_run_that_was_deleted_is_waited_for_because_it_may_be_created_again(
    place: Place,
) -> None:
    first = await place.run("iris", status={"phase": "Running", "reason": "Running"})
    second = await place.run(await place.config(storage=reading(name=first.metadata.name)))
    await place.launch(second)
    await place.delete(first)
    waiting = await place.waits(second, Reason.WAITING_FOR_RUN)
    assert "does not exist; this run starts when it has succeeded" in waiting.message
    assert (await place.status(second))["inputRun"] == {"name": first.metadata.name}


async def test_a_run_reads_the_run_of_a_schedule_for_the_end_of_its_interval(place: Place) -> None:
    nightly = await place.run("iris", schedule="0 0 * * *", timeZone="Europe/Rome", suspend=True)
    config = await place.config(storage=reading(schedule=nightly.metadata.name))
    span = {"start": "2026-11-20T00:00:00+01:00", "end": "2026-11-21T00:00:00+01:00"}
    second = await place.run(config, interval=span)
    name = scheduled_run_name(nightly.metadata.name, "2026-11-20T23:00:00Z")
    waiting = await place.launch(second)
    assert waiting.reason is Reason.WAITING_FOR_RUN
    assert (
        f"InferenceRun {name}, whose output is the input, does not exist: schedule"
        in waiting.message
    )
    assert (
        "has not created it yet, or it was deleted (successfulJobsHistoryLimit is 3)"
        in waiting.message
    )
    await place.write_status(await create(place, name), SUCCEEDED)
    assert (await place.launch(second)).state is LaunchState.LAUNCHED
    assert (await place.contract(second))["inputRun"]["name"] == name


async def test_runs_that_would_wait_for_each_other_are_refused(place: Place) -> None:
    config = await place.config(storage=reading(name="to-be-set"))
    second = await place.run(config)
    third = await place.run(await place.config(storage=reading(name=second.metadata.name)))
    assert (await place.launch(third)).reason is Reason.WAITING_FOR_RUN
    await place.edit_config(config, storage={"input": {"run": {"name": third.metadata.name}}})
    refused = await place.refuses(second, Reason.INVALID_SPEC)
    names = [run.metadata.name for run in (second, third, second)]
    assert f"the run would wait for itself: {' reads '.join(names)};" in refused.message
    await place.write_status(
        second, {"phase": "Failed", "reason": "InvalidSpec", "message": refused.message}
    )
    failed = await place.refuses(third, Reason.INPUT_RUN_FAILED)
    assert "failed: InvalidSpec: the run would wait for itself" in failed.message


async def test_a_run_that_waits_for_its_model_names_the_run_that_it_will_read(place: Place) -> None:
    first = await place.run("iris", status=SUCCEEDED)
    kserve = {"serviceRef": {"kind": "InferenceService", "name": "nowhere"}}
    config = await place.config(storage=reading(name=first.metadata.name), kserve=kserve)
    second = await place.run(config)
    waiting = await place.launch(second)
    assert waiting.reason in (Reason.MODEL_NOT_READY, Reason.KSERVE_NOT_INSTALLED)
    seen = {"name": first.metadata.name, "uid": first.metadata.uid, "phase": "Succeeded"}
    assert (await place.status(second))["inputRun"] == seen
