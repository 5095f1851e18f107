"""Which runs can be retried."""

import base64
import json
from typing import Any

import pytest

from inferrun.launches.compilation import compile_run
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun
from inferrun.run_defaults import Defaults
from tests.unit.objects import config, run

DEFAULTS = Defaults(runner_image="registry/runner:1")
FILES = {
    "input": {"file": {"claimName": "data", "path": "in.jsonl"}},
    "output": {"file": {"claimName": "data", "path": "out"}},
}
KRATEO = {"krateo": {"api": {"endpointRef": {"name": "handler"}}}}


def earlier(
    *, storage: Any = FILES, phase: str = "Failed", sha256: str = "", **spec: Any
) -> InferenceRun:
    """An ended run."""
    contract = base64.b64encode(
        json.dumps({"jobId": "u", "jobName": "j", "kserve": {}, **storage}).encode()
    ).decode()
    status = {
        "phase": phase,
        "contract": contract,
        "output": {"location": "data/out/x", "sha256": sha256},
    }
    return run(metadata={"name": "monday", "uid": "0a1b2c3d-earlier"}, status=status, **spec)


def contract_of(before: InferenceRun, *, storage: Any = FILES, **spec: Any) -> dict[str, Any]:
    made = compile_run(
        run(retryOf="monday"),
        config(storage=storage, **spec),
        defaults=DEFAULTS,
        runner_account="",
        earlier=before,
    )
    value: dict[str, Any] = json.loads(made.contract_json)
    return value


def test_the_contract_says_where_the_results_of_the_retried_run_are() -> None:
    found = contract_of(earlier(phase="Succeeded", sha256="ab" * 32))
    assert found["retryOf"] == {
        "name": "monday",
        "runId": "0a1b2c3d-earlier",
        "jobName": "inf-monday-0a1b2c3d",
        "manifestSha256": "ab" * 32,
    }


def test_a_prompt_may_be_improved_before_failed_records_are_asked_again() -> None:
    before = earlier(
        storage={**FILES, "request": {"prompt": "x", "responseSchema": {"type": "object"}}}
    )
    request = {"prompt": "y", "responseSchema": {"type": "object"}, "responseRetries": 9}
    assert contract_of(before, request=request)["request"] == request


def test_a_run_that_was_never_launched_can_be_retried() -> None:
    never = run(metadata={"name": "monday", "uid": "0a1b2c3d"}, status={"phase": "Failed"})
    assert "manifestSha256" not in contract_of(never)["retryOf"]


PAST = {"schedule": "nightly", "start": "2026-11-20T00:00:00Z", "end": "2026-11-21T00:00:00Z"}


@pytest.mark.parametrize(
    ("before", "storage", "spec", "words"),
    [
        (
            earlier(phase="Running"),
            FILES,
            {},
            "it is Running; only a run that has ended can be retried",
        ),
        (earlier(schedule="@daily"), FILES, {}, "it is a schedule; name one of its runs"),
        (earlier(backfill=PAST), FILES, {}, "it is a back-fill; name one of its runs"),
        (
            earlier(dryRun=True, phase="Succeeded"),
            FILES,
            {},
            "it is a dry run, which has no output",
        ),
        (
            earlier(),
            {**FILES, "output": KRATEO},
            {},
            "outputs that can be completed are file, s3, gcs, azure and sql",
        ),
        (
            earlier(),
            {**FILES, "input": {"file": {"claimName": "data", "path": "other.jsonl"}}},
            {},
            "storage.input",
        ),
        (
            earlier(),
            {**FILES, "output": {"file": {"claimName": "data", "path": "new"}}},
            {},
            "storage.output",
        ),
        (
            earlier(),
            FILES,
            {"tensors": {"outputs": [{"name": "predict"}]}},
            "tensors.outputs of the InferenceConfig",
        ),
        (
            earlier(),
            FILES,
            {"request": {"prompt": "x", "task": "Embedding"}},
            "request.task of the InferenceConfig",
        ),
        (
            earlier(storage={**FILES, "request": {"prompt": "x"}}),
            FILES,
            {"request": {"prompt": "x", "responseSchema": {"type": "object"}}},
            "request.responseSchema of the InferenceConfig",
        ),
        (earlier(), FILES, {"image": "mine:1"}, "requires the built-in runner"),
    ],
)
def test_what_cannot_be_retried_is_refused_for_good(
    before: InferenceRun, storage: Any, spec: dict[str, Any], words: str
) -> None:
    with pytest.raises(LaunchBlocked) as blocked:
        contract_of(before, storage=storage, **spec)
    assert (blocked.value.reason, blocked.value.is_retryable) == (Reason.INVALID_SPEC, False)
    assert words in blocked.value.message
    assert 'spec.retryOf is "monday"' in blocked.value.message
