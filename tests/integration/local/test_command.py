"""`inferrun local`: a run on this machine, as a user executes it."""

import json
import secrets
import signal
import subprocess
import time
from contextlib import suppress
from itertools import count
from random import Random
from typing import Any

import pytest

from inferrun.local.stub_model import Row, StubModel
from tests.integration.local.conftest import ROWS, Place

CLAIM = ("--claim", "data=data")
KILLS = 100
SLOW = {"requests": {"maxBatchRecords": 5, "concurrency": 1}}


def slow_sum(row: Row) -> float:
    """Five seconds for all rows, one after the other."""
    time.sleep(0.01)
    return float(sum(row))


def predictions(place: Place, run: str = "first") -> list[tuple[int, float]]:
    return [(one["index"], one["prediction"]) for one in place.results(run)]


def sums(count: int = ROWS) -> list[tuple[int, float]]:
    return [(index, index + 0.5) for index in range(count)]


def test_a_run_is_executed_and_its_first_results_are_shown(place: Place) -> None:
    place.manifest("all.yaml", place.config(), place.run())
    code, text = place.local("-f", "all.yaml", *CLAIM)
    assert code == 0, text
    assert predictions(place) == sums()
    assert "run first Succeeded" in text
    assert f"{ROWS} of {ROWS} records predicted" in text
    assert "9      9.5\n" in text
    assert f"{ROWS - 10} more rows" in text
    assert "output data/out/" in text


def test_a_run_that_has_succeeded_is_not_executed_again_unless_something_has_changed(
    place: Place,
) -> None:
    place.manifest("all.yaml", place.config(), place.run())
    for arguments, is_sent in (((), True), ((), False), (("--fresh",), True)):
        place.model.requests.clear()
        assert place.local("-f", "all.yaml", *CLAIM, *arguments)[0] == 0
        assert bool(place.model.requests) == is_sent
    with (place.data / "rows.jsonl").open("a") as file:
        file.write(f"[{ROWS}, 0.5]\n")
    assert place.local("-f", "all.yaml", *CLAIM)[0] == 0
    assert predictions(place) == sums(ROWS + 1)


def test_the_first_records_alone(place: Place) -> None:
    place.manifest("all.yaml", place.config(), place.run())
    code, text = place.local("-f", "all.yaml", *CLAIM, "--limit", "7")
    assert code == 0, text
    assert predictions(place) == sums(7)
    assert sum(one["inputs"][0]["shape"][0] for one in place.model.requests) == 7


def test_a_config_without_a_run_is_executed_as_it_is(place: Place) -> None:
    place.manifest("config.yaml", place.config())
    assert place.local("-f", "config.yaml", *CLAIM)[0] == 0
    assert predictions(place, "sums") == sums()


def test_everything_that_is_missing_is_said_at_once(place: Place) -> None:
    config = place.config(
        kserve={
            "modelName": "stub",
            "modelUrl": place.model.url,
            "protocolVersion": "v2",
            "credentialsRef": {"name": "token"},
        },
        caBundle={"configMapRef": {"name": "authorities"}},
    )
    place.manifest("all.yaml", config, place.run())
    code, text = place.local("-f", "all.yaml")
    assert code == 2
    for part in ("--claim data=FOLDER", "--secret token=FOLDER", "ConfigMap 'authorities'"):
        assert part in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("spec", "config", "said"),
    [
        ({"schedule": "@daily"}, {}, "spec.schedule"),
        ({"suspend": True}, {}, "spec.suspend"),
        ({}, {"image": "example.com/own:1"}, "spec.image"),
        (
            {},
            {"kserve": {"serviceRef": {"name": "iris"}}},
            "serviceRef names InferenceService iris, which is in a cluster, and no cluster is selected",
        ),
        ({"retryOf": "other"}, {}, "there is no such InferenceRun"),
        ({"shards": 0}, {}, "spec.shards"),
        ({"timeout": 3}, {}, "spec.timeout"),
    ],
)
def test_what_cannot_be_executed_here_is_refused_with_its_field(
    place: Place, spec: dict[str, Any], config: dict[str, Any], said: str
) -> None:
    place.manifest("all.yaml", place.config(**config), place.run(**spec))
    code, text = place.local("-f", "all.yaml", *CLAIM)
    assert (code, said in text) == (2, True), text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        (
            {
                "kserve": {
                    "modelName": "stub",
                    "modelUrl": "http://127.0.0.1:9",
                    "protocolVersion": "v2",
                }
            },
            4,
            "Connection refused",
        ),
        (
            {
                "storage": {
                    "input": {"file": {"claimName": "data", "path": "rows.csv"}},
                    "output": {"file": {"claimName": "data", "path": "out"}},
                }
            },
            3,
            "rows.jsonl",
        ),
    ],
)
def test_a_failure_has_the_exit_code_of_the_pod_and_says_why(
    place: Place, change: dict[str, Any], code: int, said: str
) -> None:
    place.manifest("all.yaml", place.config(**change), place.run())
    found, text = place.local("-f", "all.yaml", *CLAIM)
    assert (found, said in text) == (code, True), text
    status = place.status()["status"]
    assert (status["phase"], status["exitCode"]) == ("Failed", code)


def test_ctrl_c_stops_the_run_and_the_same_command_goes_on(place: Place) -> None:
    config = place.config(**SLOW, limits={"chunk": "1Ki"})
    place.manifest("all.yaml", config, place.run())
    process = place.start("-f", "all.yaml", *CLAIM, "--output", "json")
    assert process.stdout is not None
    for line in process.stdout:
        event = json.loads(line)
        if event["event"] == "progress" and event["records"]["completed"]:
            process.send_signal(signal.SIGINT)
            break
    rest, _ = process.communicate(timeout=30)
    assert process.returncode == 143, rest
    assert "the same command continues" in rest
    sent = len(place.model.requests)
    code, text = place.local("-f", "all.yaml", *CLAIM)
    assert code == 0, text
    assert predictions(place) == sums()
    assert 0 < sent < ROWS / 5
    assert len(place.model.requests) < 2 * ROWS / 5


@pytest.mark.thorough
def test_kills_lose_and_double_no_record(place: Place) -> None:
    """Each run is killed at random moments until it succeeds."""
    config = place.config(**SLOW, limits={"chunk": "1Ki"})
    seed, kills, names = secrets.randbits(32), 0, count()
    draw = Random(seed)  # noqa: S311  moments to kill at
    with StubModel(predict=slow_sum).served() as model:
        while kills < KILLS:
            name = f"run-{next(names)}"
            place.manifest("all.yaml", config, place.run(name))
            arguments = ("-f", "all.yaml", *CLAIM, "--model-url", model.url)
            has_ended = False
            while not has_ended and kills < KILLS:
                process = place.start(*arguments)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(draw.uniform(0.2, 2.5))
                has_ended = process.poll() is not None
                kills += not has_ended
                process.kill()
                process.communicate()
            code, text = place.local(*arguments)
            assert code == 0, (seed, text)
            assert predictions(place, name) == sums(), seed


def test_events_are_objects_on_lines(place: Place) -> None:
    place.manifest("all.yaml", place.config(), place.run())
    code, text = place.local("-f", "all.yaml", *CLAIM, "--output", "json")
    events = [json.loads(line) for line in text.splitlines()]
    assert code == 0
    assert events[0]["event"] == "started"
    assert events[-1] | {"records": None} == events[-1] | {
        "event": "ended",
        "phase": "Succeeded",
        "records": None,
    }
    assert events[-1]["records"] == {"total": ROWS, "completed": ROWS, "failed": 0}


def test_failed_records_are_grouped_with_an_example(place: Place) -> None:
    with (place.data / "rows.jsonl").open("a") as file:
        file.write("no json\nneither\n")
    place.manifest("all.yaml", place.config(errorThreshold=5), place.run())
    code, text = place.local("-f", "all.yaml", *CLAIM)
    assert code == 0, text
    assert f"2 failed with invalid_input, such as record {ROWS}" in text


def test_an_earlier_run_is_retried_and_is_the_input_of_another(place: Place) -> None:
    place.manifest("first.yaml", place.config(), place.run())
    assert place.local("-f", "first.yaml", *CLAIM)[0] == 0
    place.manifest("again.yaml", place.config(), place.run("again", retryOf="first"))
    place.model.requests.clear()
    code, text = place.local("-f", "again.yaml", *CLAIM)
    assert code == 0, text
    assert predictions(place, "again") == sums()
    assert not place.model.requests
    storage = {
        "input": {"run": {"name": "first"}},
        "output": {"file": {"claimName": "data", "path": "out"}},
    }
    place.manifest(
        "next.yaml", place.config("next", storage=storage), place.run("next", config="next")
    )
    code, text = place.local("-f", "next.yaml", *CLAIM)
    assert code == 0, text
    assert [value for _, value in predictions(place, "next")] == [value for _, value in sums()]


def test_shards_are_processes(place: Place) -> None:
    config = place.config(**SLOW, limits={"chunk": "1Ki"})
    place.manifest("all.yaml", config, place.run(shards=2))
    code, text = place.local("-f", "all.yaml", *CLAIM)
    assert code == 0, text
    assert sorted(predictions(place)) == sums()


def test_a_dry_run_predicts_nothing(place: Place) -> None:
    place.manifest("all.yaml", place.config(), place.run(dryRun=True))
    code, text = place.local("-f", "all.yaml", *CLAIM)
    assert code == 0, text
    assert "dry run: the contract is valid" in text
    assert not place.model.requests


def test_a_run_ends_at_its_time_limit(place: Place) -> None:
    place.manifest(
        "all.yaml",
        place.config(
            kserve={"modelName": "stub", "modelUrl": "http://127.0.0.1:9", "protocolVersion": "v2"}
        ),
        place.run(timeoutSeconds=2, backoffLimit=3),
    )
    code, text = place.local("-f", "all.yaml", *CLAIM)
    assert code == 6, text
    assert "deadline reached after 2 s" in text


def test_a_state_that_cannot_be_stored_is_reported(place: Place) -> None:
    place.manifest("all.yaml", place.config(), place.run())
    (place.folder / "state").write_text("a file in its place")
    code, text = place.local("-f", "all.yaml", *CLAIM, "--state", "state")
    assert (code, "state" in text, "Traceback" in text) == (1, True, False), text


def test_a_longer_time_limit_lets_a_run_go_on(place: Place) -> None:
    config = place.config(**SLOW, limits={"chunk": "1Ki"})
    with StubModel(predict=slow_sum).served() as model:
        arguments = ("-f", "all.yaml", *CLAIM, "--model-url", model.url)
        place.manifest("all.yaml", config, place.run(timeoutSeconds=3))
        code, text = place.local(*arguments)
        assert code == 6, text
        uid = place.status()["metadata"]["uid"]
        code, text = place.local(*arguments)
        assert code == 6, text
        place.manifest("all.yaml", config, place.run(timeoutSeconds=600))
        code, text = place.local(*arguments)
    assert code == 0, text
    assert place.status()["metadata"]["uid"] == uid
    assert predictions(place) == sums()


def test_secrets_are_given_by_file_and_left_nowhere(place: Place) -> None:
    canary = f"canary-{secrets.token_hex(16)}"
    (place.folder / "token.env").write_text(f"# of a test\nexport token='{canary}'\n")
    config = place.config(
        kserve={
            "modelName": "stub",
            "modelUrl": place.model.url,
            "protocolVersion": "v2",
            "credentialsRef": {"name": "login"},
        }
    )
    place.manifest("all.yaml", config, place.run())
    code, text = place.local(
        "-f", "all.yaml", *CLAIM, "--secret", "login=token.env", "--then", "apply"
    )
    assert code == 0, text
    assert canary not in text
    assert "Secret login" in text
    assert "kubectl apply -f all.yaml" in text
    left = [
        one
        for one in place.folder.rglob("*")
        if one.is_file() and one.name != "token.env" and canary in one.read_text(errors="replace")
    ]
    assert left == []
