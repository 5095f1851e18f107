"""The commands about runs, on a real API server."""

import json
from pathlib import Path

import pytest
import yaml

from inferrun import wellknown
from inferrun.cli.reporting import CommandExit
from inferrun.kube.objects import CONFIGS, RUNS
from tests.integration.cli.run_space import CANCELLED, PROGRESS, SUCCESS, RunSpace
from tests.integration.cli.stage import run_command


async def test_a_run_of_a_config_gets_parameters_labels_and_an_interval(space: RunSpace) -> None:
    await space.create_config("iris")
    words = (
        "-p",
        "day=monday",
        "-p",
        "query=a=b",
        "-l",
        "team=a",
        "--interval-start",
        "2026-11-21",
        "--dry-run",
    )
    printed = space.command(
        "run",
        f"{space.name}/iris",
        *words,
        "--interval-end",
        "2026-11-22T01:00",
        "--time-zone",
        "Europe/Rome",
        "-o",
        "json",
    )
    assert printed.code == CommandExit.OK, printed.err
    run = json.loads(printed.out)
    assert run["metadata"]["name"].startswith("iris-")
    assert run["metadata"]["labels"] == {"team": "a"}
    assert run["spec"] == {
        "configRef": {"name": "iris", "namespace": space.name},
        "parameters": {"day": "monday", "query": "a=b"},
        "dryRun": True,
        "interval": {
            "start": "2026-11-20T23:00:00Z",
            "end": "2026-11-22T00:00:00Z",
            "timeZone": "Europe/Rome",
        },
    }


async def test_the_same_command_with_a_name_finds_its_run_and_another_request_is_an_error(
    space: RunSpace,
) -> None:
    await space.create_config("iris")
    first, second = (
        space.command("run", "iris", "-p", "a=1", "--name", "mine", "-o", "yaml") for _ in range(2)
    )
    assert (first.code, second.code) == (0, 0)
    uids = {yaml.safe_load(one.out)["metadata"]["uid"] for one in (first, second)}
    assert len(uids) == 1
    other = space.command("run", "iris", "-p", "a=2", "--name", "mine")
    assert other.code == CommandExit.USAGE
    assert "exists already, with another spec" in other.err


async def test_a_file_with_a_config_is_applied_and_run(space: RunSpace, tmp_path: Path) -> None:
    ends = {
        "input": {"file": {"claimName": "a", "path": "in.jsonl"}},
        "output": {"file": {"claimName": "a", "path": "o"}},
    }
    spec = {
        "kserve": {"modelName": "m", "modelUrl": "http://m.x/v2/models/m/infer"},
        "storage": ends,
    }
    config = {
        "apiVersion": wellknown.API_VERSION,
        "kind": "InferenceConfig",
        "metadata": {"name": "c"},
        "spec": spec,
    }
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    printed = space.command("run", "-f", str(path), "-o", "name")
    assert printed.code == CommandExit.OK, printed.err
    assert printed.out.startswith(f"inferencerun.{wellknown.GROUP}/c-")
    path.write_text(yaml.safe_dump({**config, "spec": {**spec, "shards": 2}}))
    assert space.command("run", "-f", str(path)).code == CommandExit.OK


async def test_a_file_may_contain_a_schedule_and_runs_with_generated_names(
    space: RunSpace, tmp_path: Path
) -> None:
    head = {"apiVersion": wellknown.API_VERSION, "kind": "InferenceRun"}
    nightly = {
        **head,
        "metadata": {"name": "nightly"},
        "spec": {"configRef": {"name": "c"}, "schedule": "0 2 * * *"},
    }
    single = {**head, "metadata": {"generateName": "once-"}, "spec": {"configRef": {"name": "c"}}}
    path = tmp_path / "runs.yaml"
    path.write_text(yaml.safe_dump_all([nightly, single]))
    printed = space.command("run", "-f", str(path))
    assert printed.code == CommandExit.OK, printed.err
    assert printed.out.startswith("schedule nightly created\nrun once-")
    assert (
        "2026" in space.command("next", "nightly").out or space.command("next", "nightly").code == 0
    )


async def test_runs_are_listed_as_kubectl_does(space: RunSpace) -> None:
    assert "no runs in namespace" in space.command("get").err
    await space.create("first", status=SUCCESS)
    await space.create("second", status=PROGRESS)
    header, first, second = (line.split() for line in space.command("get").out.splitlines())
    assert header == ["NAME", "PHASE", "REASON", "CONFIG", "DONE", "FAILED", "DURATION", "AGE"]
    assert first[:7] == ["first", "Succeeded", "Succeeded", "iris", "990", "10", "20s"]
    assert second[:6] == ["second", "Running", "Running", "iris", "240/1,000", "10"]
    assert (
        space.command("get", "second", "-o", "name").out
        == f"inferencerun.{wellknown.GROUP}/second\n"
    )
    assert len(json.loads(space.command("get", "-o", "json").out)["items"]) == 2
    assert space.name in run_command("get", "-A", "--kubeconfig", str(space.kubeconfig)).out
    wide = space.command("get", "-o", "wide").out
    assert "data/out" in wide


async def test_a_run_that_does_not_exist_has_a_code_of_its_own(space: RunSpace) -> None:
    for words in (["get"], ["describe"], ["wait"], ["cancel"], ["suspend"], ["retry"], ["logs"]):
        printed = space.command(*words, "nothing")
        assert printed.code == CommandExit.NOT_FOUND, printed.err
        assert f"run {space.name}/nothing does not exist" in printed.err


async def test_a_mistyped_name_is_corrected(space: RunSpace) -> None:
    await space.create("iris-monday", status=SUCCESS)
    for words in (["get"], ["cancel"], ["results"]):
        assert "did you mean iris-monday?" in space.command(*words, "iris-mondya").err
    body = {
        "apiVersion": wellknown.API_VERSION,
        "kind": "InferenceConfig",
        "metadata": {"name": "iris"},
    }
    await space.api.create(
        CONFIGS,
        space.name,
        {**body, "spec": {"storage": {"input": {"x": {}}, "output": {"x": {}}}}},
    )
    mistyped = space.command("run", "irsi")
    assert mistyped.code == CommandExit.USAGE
    assert f"config {space.name}/irsi does not exist, did you mean iris?" in mistyped.err
    started = space.command("run", "iris", "-o", "wide")
    assert (started.code, started.out.split()[0]) == (CommandExit.OK, "NAME")


async def test_control_characters_and_markup_in_a_status_are_shown_as_text(space: RunSpace) -> None:
    hostile = "\x1b]0;owned\x07\x1b[2J[red]not markup[/red] \u202etxet"
    await space.create(
        "hostile", status={"phase": "Pending", "reason": "Unschedulable", "message": hostile}
    )
    printed = space.command("describe", "hostile")
    assert "[red]not markup[/red]" in printed.out
    assert not any(char in printed.out for char in "\x1b\x07\u202e")


async def test_describe_says_why_a_run_failed_and_what_its_attempts_did(space: RunSpace) -> None:
    attempts = [
        {
            "launch": 1,
            "attempt": 1,
            "exitCode": 4,
            "reason": "InferenceFailed",
            "message": "the model refused",
            "log": "boom",
        }
    ]
    failed = {
        "phase": "Failed",
        "reason": "InferenceFailed",
        "message": "the model refused",
        "attempts": attempts,
    }
    await space.create("failed", status=failed, parameters={"day": "monday"})
    out = space.command("describe", "failed").out
    for expected in (
        "Failed (InferenceFailed)",
        "the model refused",
        "boom",
        "day=monday",
        "kubectl get inferencerun",
    ):
        assert expected in out


async def test_describe_shows_the_times_of_a_schedule_and_the_counts_of_a_backfill(
    space: RunSpace,
) -> None:
    times = {
        "nextScheduleTimes": ["2126-11-25T02:00:00Z"],
        "lastScheduleTime": "2026-11-01T02:00:00Z",
    }
    await space.create("nightly", status={"phase": "Scheduled", **times}, schedule="0 2 * * *")
    out = space.command("describe", "nightly").out
    (past,) = [
        line.index("2026-11-01T02:00:00Z (") for line in out.splitlines() if " last time " in line
    ]
    (future,) = [
        line.index("2126-11-25T02:00:00Z (in ")
        for line in out.splitlines()
        if " next " in line and "2126" in line
    ]
    assert past == future
    assert "inferrun next nightly" in out
    span = {"schedule": "nightly", "start": "2026-11-01T00:00:00Z", "end": "2026-11-03T00:00:00Z"}
    body = {
        "apiVersion": wellknown.API_VERSION,
        "kind": "InferenceRun",
        "metadata": {"name": "late"},
    }
    await space.api.create(RUNS, space.name, {**body, "spec": {"backfill": span, "suspend": True}})
    out = space.command("describe", "late").out
    for expected in (
        "nightly, missing runs, 1 at a time",
        "2026-11-01T00:00:00Z to 2026-11-03T00:00:00Z",
    ):
        assert expected in out


async def test_a_run_is_suspended_resumed_and_cancelled_until_it_has_ended(space: RunSpace) -> None:
    await space.create("mine", status=PROGRESS)
    assert space.command("suspend", "mine").out == "run mine suspended\n"
    assert (await space.read("mine"))["spec"]["suspend"] is True
    assert space.command("resume", "mine").out == "run mine resumed\n"
    assert (await space.read("mine"))["spec"]["suspend"] is False
    assert space.command("cancel", "mine").code == CommandExit.OK
    annotations = (await space.read("mine"))["metadata"]["annotations"]
    assert annotations[wellknown.ANNOTATION_CANCEL_REQUESTED] == "true"
    await space.report("mine", {**PROGRESS, **CANCELLED})
    for words in (["cancel"], ["suspend"]):
        printed = space.command(*words, "mine")
        assert printed.code == CommandExit.FAILED
        assert "has ended: Failed (Cancelled)" in printed.err


async def test_a_schedule_is_suspended_but_neither_cancelled_nor_waited_for(
    space: RunSpace,
) -> None:
    await space.create("nightly", schedule="0 2 * * *", timeZone="Europe/Rome")
    assert space.command("suspend", "nightly").out == "schedule nightly suspended\n"
    assert "inferrun suspend" in space.command("cancel", "nightly").err
    waited = space.command("wait", "nightly")
    assert waited.code == CommandExit.USAGE
    assert "is a schedule" in waited.err
    times = space.command("next", "nightly", "-c", "2")
    assert "is suspended" in times.err
    assert times.out.count(" 02:00:00 CE") == 2


async def test_a_retry_has_the_spec_of_the_ended_run_and_names_it(space: RunSpace) -> None:
    await space.create("mine", parameters={"day": "monday"}, status=PROGRESS)
    assert "has not ended" in space.command("retry", "mine").err
    await space.report("mine", SUCCESS)
    retried = yaml.safe_load(space.command("retry", "mine", "-o", "yaml").out)
    assert retried["metadata"]["name"].startswith("mine-retry-")
    assert retried["spec"] == {
        "configRef": {"name": "iris"},
        "parameters": {"day": "monday"},
        "retryOf": "mine",
    }
    again = yaml.safe_load(
        space.command("retry", "mine", "--all", "--name", "again", "-o", "yaml").out
    )
    assert "retryOf" not in again["spec"]


@pytest.mark.parametrize(
    ("status", "code"), [(SUCCESS, CommandExit.OK), ({**PROGRESS, **CANCELLED}, CommandExit.FAILED)]
)
async def test_waiting_for_an_ended_run_tells_how_it_ended(
    space: RunSpace, status: dict[str, object], code: CommandExit
) -> None:
    await space.create("mine", status=status)
    printed = space.command("wait", "mine")
    assert printed.code == code
    assert str(status["message"]) in printed.out + printed.err
    result = space.command("wait", "mine", "-o", "json")
    assert json.loads(result.out)["phase"] == status["phase"]


async def test_waiting_ends_after_its_timeout(space: RunSpace) -> None:
    await space.create("mine", status=PROGRESS)
    printed = space.command("wait", "mine", "--timeout", "1")
    assert printed.code == CommandExit.TIMED_OUT
    assert "it goes on" in printed.err


async def test_a_server_that_does_not_respond_has_a_code_of_its_own(
    space: RunSpace, tmp_path: Path
) -> None:
    config = yaml.safe_load(space.kubeconfig.read_text())
    for cluster in config["clusters"]:
        cluster["cluster"]["server"] = "https://127.0.0.1:9"
    (tmp_path / "elsewhere").write_text(yaml.safe_dump(config))
    printed = run_command("get", "--kubeconfig", str(tmp_path / "elsewhere"))
    assert printed.code == CommandExit.UNREACHABLE
    assert "the API server does not respond" in printed.err


async def test_without_permission_the_error_says_so(space: RunSpace, stranger: Path) -> None:
    printed = run_command("get", "--kubeconfig", str(stranger), "-n", space.name)
    assert printed.code == CommandExit.DENIED
    assert "cannot list resource" in printed.err
