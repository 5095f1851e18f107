"""The pages on the contract, on custom images and on stores describe what the code does."""

import json
import re
import subprocess
import sys
from pathlib import Path

from inferrun.contract import Contract, dump_contract
from inferrun.launches.manifests import CONTRACT_PATH, job
from inferrun.launches.pod_mounts import DATA_PATH, ENDPOINTS_PATH
from inferrun.launches.snapshot import CompiledRun
from inferrun.names import job_base_name
from inferrun.run_ref import RunRef
from inferrun.runner_report import ProgressLine, RunnerResult, latest_line, parse_report
from inferrun.stop_timing import STOP
from inferrun_runner import registry
from tests.unit.docs.pages import CONTRACT, CUSTOM_IMAGE, ROOT, STORE, blocks
from tests.unit.objects import snapshot

TEXT = CONTRACT.read_text()
CONTRACT_EXAMPLE, RESULT_EXAMPLE, PROGRESS_EXAMPLE = blocks(CONTRACT, "json")


def test_the_example_contract_is_what_the_worker_writes() -> None:
    contract = Contract.model_validate_json(CONTRACT_EXAMPLE)
    assert json.loads(dump_contract(contract)) == json.loads(CONTRACT_EXAMPLE)
    assert contract.job_name == job_base_name("iris-january", contract.run_id)


def test_the_example_of_a_final_message_is_accepted() -> None:
    result = parse_report(RunnerResult, RESULT_EXAMPLE)
    assert result is not None
    assert set(json.loads(RESULT_EXAMPLE)) == set(result.model_dump())


def test_the_example_of_progress_is_accepted() -> None:
    assert latest_line(ProgressLine, PROGRESS_EXAMPLE) is not None


def test_every_member_of_the_contract_is_described() -> None:
    table = TEXT.split("## contract.json", 1)[1].split("## How the container ends", 1)[0]
    described = {
        name
        for row in re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert described == {field.alias for field in Contract.model_fields.values()}


def test_the_documented_variables_are_those_of_the_container() -> None:
    table = TEXT.split("## Environment", 1)[1].split("## contract.json", 1)[0]
    for is_ours in (False, True):
        documented = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
        if is_ours:
            documented += ["HOME", "INFERRUN_POST_LIMIT"]
            assert all(f"`{name}`" in table for name in documented)
        assert sorted(documented) == sorted(environment_of_the_container(is_ours=is_ours))


def environment_of_the_container(*, is_ours: bool) -> list[str]:
    """The variables of a Job's container."""
    compiled = CompiledRun("inf-a-12345678", "{}", snapshot(image="b", is_our_runner=is_ours))
    run = RunRef(namespace="n", name="a", uid="12345678")
    made = job(run, compiled, installation="i", launch=1, attempt=1, seconds_left=60)
    return [entry["name"] for entry in made["spec"]["template"]["spec"]["containers"][0]["env"]]


def test_the_documented_paths_are_mounted() -> None:
    for place in (
        CONTRACT_PATH,
        f"{ENDPOINTS_PATH}/input",
        f"{DATA_PATH}/input",
        f"{DATA_PATH}/output",
    ):
        assert f"`{place}" in TEXT


def test_the_documented_grace_periods_are_those_used() -> None:
    assert (STOP.grace, STOP.deadline_grace) == (10, 5)
    text = " ".join(TEXT.split())
    assert (
        "SIGTERM and has 10 seconds to exit if its run is deleted or cancelled, and 5 seconds at its deadline"
        in text
    )


def test_the_documented_entry_point_groups_are_searched() -> None:
    documented = re.findall(r"^\| `(inferrun\.[a-z.]+)` \|", STORE.read_text(), re.MULTILINE)
    assert documented == [registry.INPUTS, registry.OUTPUTS, registry.PROTOCOLS, registry.FORMATS]
    assert (ROOT / "tests" / "conformance" / "foreign").is_dir()


def test_the_program_of_the_custom_image_works(tmp_path: Path) -> None:
    (program,) = blocks(CUSTOM_IMAGE, "python")
    given = {
        "jobName": "inf-sum-12345678",
        "input": {"numbers": {"values": [1, 2, 3]}},
        "kserve": {},
    }
    (tmp_path / "contract.json").write_text(json.dumps(given))
    placed = program.replace(CONTRACT_PATH, str(tmp_path / "contract.json"))
    placed = placed.replace("/dev/termination-log", str(tmp_path / "message"))
    subprocess.run([sys.executable, "-c", placed], check=True, timeout=60)
    assert (tmp_path / "message").read_text() == "inf-sum-12345678: the sum is 6"
    assert len(program.splitlines()) <= 10
