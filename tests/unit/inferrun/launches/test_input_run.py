"""Which run's output is a run's input, and what becomes of the run that reads it."""

import base64
import json
from typing import Any

import pytest

from inferrun.fields.problems import describe
from inferrun.launches.compilation import compile_run
from inferrun.launches.input_run import (
    InputReference,
    input_reference,
    input_run,
    missing,
    pinned_input_run,
)
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.launches.manifests import job
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun
from inferrun.resources.validation import config_problems
from inferrun.run_defaults import Defaults
from tests.unit.objects import RUN, config, run

IMAGE = "registry/runner:1"
DEFAULTS = Defaults(runner_image=IMAGE)
FILE = {"file": {"claimName": "made", "path": "out"}}
S3 = {"s3": {"bucket": "records", "path": "out", "credentialsRef": {"name": "s3-keys"}}}
SQL = {"sql": {"credentialsRef": {"name": "database"}, "table": "predictions"}}
KRATEO = {"krateo": {"api": {"endpointRef": {"name": "handler"}}}}
PAST = {"schedule": "nightly", "start": "2026-11-20T00:00:00Z", "end": "2026-11-21T00:00:00Z"}
SPAN = {"start": "2026-11-20T01:00:00+01:00", "end": "2026-11-21T01:00:00+01:00"}


def reading(**given: str) -> Any:
    return {"input": {"run": given}, "output": FILE}


def nightly(
    *,
    output: Any = FILE,
    phase: str | None = "Succeeded",
    reason: str = "Succeeded",
    sha256: str = "ab" * 32,
    **spec: Any,
) -> InferenceRun:
    """The run whose output is the input."""
    contract = base64.b64encode(
        json.dumps({"jobId": "u", "jobName": "j", "output": output}).encode()
    ).decode()
    ended = (
        {"contract": contract, "output": {"location": "made/out/x", "sha256": sha256}}
        if phase
        else {}
    )
    status = {"phase": phase, "reason": reason, "message": "the model is gone", **ended}
    return run(
        metadata={"name": "nightly", "uid": "0a1b2c3d-earlier"},
        status=status if phase else {},
        **spec,
    )


@pytest.mark.parametrize(
    ("given", "name"),
    [({"name": "nightly"}, "nightly"), ({"schedule": "nightly"}, "nightly-20261121000000")],
)
def test_the_run_is_named_or_is_that_of_a_schedule_for_the_end_of_the_interval(
    given: Any, name: str
) -> None:
    found = input_reference(
        run(interval=SPAN), config(storage=reading(**given)), runner_image=IMAGE
    )
    assert found is not None
    assert found.name == name


def test_the_name_may_have_placeholders_whose_values_cannot_name_anything_but_a_run() -> None:
    storage = reading(name="$(params.base)-$(interval.end:%Y%m%d)")
    model = {"modelUrl": "http://models/v2/models/iris/infer"}
    made = config(storage=storage, kserve=model)
    found = input_reference(
        run(interval=SPAN, parameters={"base": "nightly"}), made, runner_image=IMAGE
    )
    assert found == InputReference("nightly-20261121")
    for base, words in (
        ("no/where", "must not contain /"),
        ("", "must not be empty"),
        ("A B", "string should match"),
    ):
        with pytest.raises(LaunchBlocked, match=words) as blocked:
            input_reference(run(interval=SPAN, parameters={"base": base}), made, runner_image=IMAGE)
        assert (blocked.value.reason, blocked.value.is_retryable) == (Reason.INVALID_SPEC, False)
    assert config_problems(made) == ()
    misspelt = config(storage=reading(name="$(parms.base)"), kserve=model)
    assert "did you mean params.base?" in describe(config_problems(misspelt))


@pytest.mark.parametrize("image", [None, IMAGE])
def test_only_the_built_in_runner_reads_runs(image: str | None) -> None:
    storage = reading(name="nightly")
    assert (
        input_reference(run(), config(storage=storage, image=image), runner_image=IMAGE) is not None
    )
    assert (
        input_reference(run(), config(storage=storage, image="mine:1"), runner_image=IMAGE) is None
    )
    assert input_reference(run(), config(storage={"input": FILE}), runner_image=IMAGE) is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"schedule": "nightly"},
            "this run has no interval: set spec.interval, or let a schedule start it",
        ),
        ({"name": "iris"}, "the run would wait for itself: iris reads iris"),
    ],
)
def test_a_run_that_can_have_no_such_input_is_refused_for_good(given: Any, words: str) -> None:
    with pytest.raises(LaunchBlocked, match=words) as blocked:
        input_reference(run(), config(storage=reading(**given)), runner_image=IMAGE)
    assert (blocked.value.reason, blocked.value.is_retryable) == (Reason.INVALID_SPEC, False)


@pytest.mark.parametrize(
    ("output", "mounted"),
    [
        (FILE, ("data-input", {"persistentVolumeClaim": {"claimName": "made"}}, "/data/input")),
        (S3, ("endpoint-input", "s3-keys", "/etc/inferrun/endpoints/input")),
        (SQL, ("endpoint-input", "database", "/etc/inferrun/endpoints/input")),
    ],
)
def test_the_contract_says_what_is_read_and_the_pod_mounts_what_that_needs(
    output: Any, mounted: Any
) -> None:
    storage = {
        "input": {"run": {"name": "nightly"}},
        "output": {"file": {"claimName": "own", "path": "out"}},
    }
    read = input_run(nightly(output=output))
    made = compile_run(
        run(), config(storage=storage), defaults=DEFAULTS, runner_account="", input_run=read
    )
    contract = json.loads(made.contract_json)
    assert contract["input"] == {"run": {"name": "nightly"}}
    assert contract["inputRun"] == {
        "name": "nightly",
        "runId": "0a1b2c3d-earlier",
        "jobName": "inf-nightly-0a1b2c3d",
        "manifestSha256": "ab" * 32,
        "output": output,
    }
    pod = job(RUN, made, installation="tests", launch=1, attempt=1, seconds_left=None)["spec"][
        "template"
    ]["spec"]
    name, source, place = mounted
    volume = next(one for one in pod["volumes"] if one["name"] == name)
    assert source in (
        {key: one for key, one in volume.items() if key != "name"},
        volume.get("secret", {}).get("secretName"),
    )
    mounts = [
        (one["mountPath"], one["readOnly"])
        for one in pod["containers"][0]["volumeMounts"]
        if one["name"] == name
    ]
    assert mounts == [(place, True)]


@pytest.mark.parametrize(
    ("phase", "reason", "words"),
    [
        ("Running", "Running", "is Running (Running); this run starts when it has succeeded"),
        ("Pending", "SecretNotFound", "is Pending (SecretNotFound)"),
        ("Suspended", "Suspended", "is Suspended"),
        (None, "", "is not accepted yet"),
    ],
)
def test_a_run_that_has_not_ended_is_waited_for(phase: str | None, reason: str, words: str) -> None:
    with pytest.raises(LaunchBlocked) as blocked:
        input_run(nightly(phase=phase, reason=reason))
    assert (blocked.value.reason, blocked.value.is_retryable) == (Reason.WAITING_FOR_RUN, True)
    assert f"InferenceRun nightly, whose output is the input, {words}" in blocked.value.message


@pytest.mark.parametrize(
    ("found", "reason", "words"),
    [
        (
            nightly(phase="Failed", reason="InferenceFailed"),
            Reason.INPUT_RUN_FAILED,
            "failed: InferenceFailed: the model is gone",
        ),
        (
            nightly(dryRun=True),
            Reason.INPUT_RUN_WITHOUT_OUTPUT,
            "was a dry run, which stores nothing",
        ),
        (nightly(sha256=""), Reason.INPUT_RUN_WITHOUT_OUTPUT, "has no output with a manifest"),
        (
            nightly(output=KRATEO),
            Reason.INPUT_RUN_WITHOUT_OUTPUT,
            "with one of the labels file, s3, gcs, azure, sql",
        ),
        (
            nightly(output={**FILE, **S3}),
            Reason.INPUT_RUN_WITHOUT_OUTPUT,
            "has no output with a manifest",
        ),
        (
            nightly(schedule="@daily", phase="Scheduled", reason="Scheduled"),
            Reason.INPUT_RUN_WITHOUT_OUTPUT,
            "is a schedule; set storage.input.run.schedule",
        ),
        (
            nightly(backfill=PAST, phase="Running", reason="Running"),
            Reason.INPUT_RUN_WITHOUT_OUTPUT,
            "is a back-fill; name one of its runs, or set storage.input.run.schedule",
        ),
    ],
)
def test_a_run_whose_output_will_never_be_there_fails_the_one_that_reads_it(
    found: InferenceRun, reason: Reason, words: str
) -> None:
    with pytest.raises(LaunchBlocked) as blocked:
        input_run(found)
    assert (blocked.value.reason, blocked.value.is_retryable) == (reason, False)
    assert words in blocked.value.message


@pytest.mark.parametrize(
    ("expression", "limit", "words"),
    [
        (None, None, "there is no schedule nightly"),
        (
            "0 0 * * *",
            None,
            "has not created it yet, or it was deleted (successfulJobsHistoryLimit is 3)",
        ),
        ("0 0 * * *", 7, "(successfulJobsHistoryLimit is 7)"),
        (
            "30 0 * * *",
            None,
            "schedule nightly (30 0 * * *, Etc/UTC) has no run at 2026-11-21T00:00:00Z",
        ),
    ],
)
def test_a_run_that_does_not_exist_is_waited_for_with_the_likely_cause(
    expression: str | None, limit: int | None, words: str
) -> None:
    reference = input_reference(
        run(interval=SPAN), config(storage=reading(schedule="nightly")), runner_image=IMAGE
    )
    assert reference is not None
    # Any: fields of a spec
    options: dict[str, Any] = {"schedule": expression, "successfulJobsHistoryLimit": limit}
    schedule = run(status={"phase": "Scheduled"}, **options) if expression else None
    blocked = missing(reference, schedule)
    assert (blocked.reason, blocked.is_retryable) == (Reason.WAITING_FOR_RUN, True)
    assert words in blocked.message
    assert blocked.message.startswith(
        "InferenceRun nightly-20261121000000, whose output is the input, does not exist: "
    )
    assert "does not exist; this run starts" in missing(InputReference("nightly"), None).message


def test_a_retry_reads_what_the_retried_run_has_read() -> None:
    read = input_run(nightly())
    storage = reading(name="nightly")
    made = compile_run(
        run(), config(storage=storage), defaults=DEFAULTS, runner_account="", input_run=read
    )
    launched = run(status={"contract": base64.b64encode(made.contract_json.encode()).decode()})
    assert pinned_input_run(launched) == read
    assert pinned_input_run(run()) is None
