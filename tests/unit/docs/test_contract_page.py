"""What the page on the contract claims is what the code does."""

import json
import re
import subprocess
import sys
from pathlib import Path

from activities.rules.manifests import CONTRACT_PATH, DATA_PATH, ENDPOINTS_PATH, TERMINATION_GRACE, job
from activities.rules.snapshot import CompiledRun
from inferrun.contract import Contract, dump_contract
from inferrun.exitcodes import ExitCode, meaning_of
from inferrun.names import job_base_name
from inferrun.run_ref import RunRef
from inferrun.runner_report import parse_progress, parse_result
from runner import registry
from tests.unit.docs.pages import CONTRACT, ROOT, blocks
from tests.unit.objects import snapshot
from workflows.launch_supervision import DEADLINE_GRACE, STOP_GRACE

TEXT = CONTRACT.read_text()
CONTRACT_EXAMPLE, RESULT_EXAMPLE, PROGRESS_EXAMPLE = blocks(CONTRACT, "json")


def test_the_example_is_a_contract_as_it_is_written() -> None:
    contract = Contract.model_validate_json(CONTRACT_EXAMPLE)
    assert json.loads(dump_contract(contract)) == json.loads(CONTRACT_EXAMPLE)
    assert contract.job_name == job_base_name("iris-january", contract.run_id)


def test_the_example_of_a_last_message_is_one_that_is_understood() -> None:
    result = parse_result(RESULT_EXAMPLE)
    assert result is not None
    assert set(json.loads(RESULT_EXAMPLE)) == set(result.model_dump())


def test_the_example_of_progress_is_one_that_is_understood() -> None:
    assert parse_progress(PROGRESS_EXAMPLE) is not None


def test_the_table_of_exit_codes_says_what_the_code_says() -> None:
    rows = dict(re.findall(r"^\| (\d+) \| ([^|]+) \|", TEXT, re.MULTILINE))
    assert {code: f"{code} ({meaning})" for code, meaning in rows.items()} == {
        str(int(code)): meaning_of(code) for code in ExitCode
    }


def test_the_variables_are_those_that_the_container_gets() -> None:
    table = TEXT.split("### Environment", 1)[1].split("### contract.json", 1)[0]
    for is_ours in (False, True):
        told = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
        if is_ours:
            told += ["HOME", "INFERRUN_POST_LIMIT"]
            assert all(f"`{name}`" in table for name in told)
        assert sorted(told) == sorted(environment_of_the_container(is_ours=is_ours))


def environment_of_the_container(*, is_ours: bool) -> list[str]:
    """The variables of a Job's container."""
    compiled = CompiledRun("inf-a-12345678", "{}", snapshot(image="b", is_our_runner=is_ours))
    run = RunRef(namespace="n", name="a", uid="12345678")
    made = job(run, compiled, installation="i", launch=1, attempt=1, seconds_left=60)
    return [entry["name"] for entry in made["spec"]["template"]["spec"]["containers"][0]["env"]]


def test_the_places_are_those_that_are_mounted() -> None:
    for place in (CONTRACT_PATH, f"{ENDPOINTS_PATH}/input", f"{DATA_PATH}/input", f"{DATA_PATH}/output"):
        assert f"`{place}" in TEXT


def test_the_graces_are_those_that_are_given() -> None:
    assert (STOP_GRACE, TERMINATION_GRACE, DEADLINE_GRACE) == (10, 10, 5)
    assert "SIGTERM and 10 seconds when its run is deleted or cancelled, 5 seconds at its deadline" in TEXT


def test_the_groups_of_entry_points_are_those_that_are_searched() -> None:
    told = re.findall(r"^\| `(inferrun\.[a-z.]+)` \|", TEXT, re.MULTILINE)
    assert told == [registry.INPUTS, registry.OUTPUTS, registry.PROTOCOLS, registry.FORMATS]
    assert (ROOT / "tests" / "conformance" / "foreign").is_dir()


def test_the_image_in_ten_lines_works(tmp_path: Path) -> None:
    (program,) = blocks(CONTRACT, "python")
    given = {"jobName": "inf-sum-12345678", "input": {"numbers": {"values": [1, 2, 3]}}, "kserve": {}}
    (tmp_path / "contract.json").write_text(json.dumps(given))
    placed = program.replace(CONTRACT_PATH, str(tmp_path / "contract.json"))
    placed = placed.replace("/dev/termination-log", str(tmp_path / "message"))
    subprocess.run([sys.executable, "-c", placed], check=True, timeout=60)
    assert (tmp_path / "message").read_text() == "inf-sum-12345678: the sum is 6"
    assert len(program.splitlines()) <= 10
