"""The contract as runners of any image read it: compared as JSON with what the Krateo controller's users have."""

import json
from pathlib import Path
from typing import Any

import pytest

from activities.rules.snapshot import compile_run
from inferrun.contract import Contract, Model, dump_contract
from inferrun.control.run_defaults import Defaults
from tests.unit.objects import UID, config, run

GOLDEN = json.loads((Path(__file__).parent / "golden" / "contract.json").read_text(encoding="utf-8"))


def dumped(**members: Any) -> Any:  # Any: the JSON that is compared
    return json.loads(dump_contract(Contract.model_validate({"jobId": "u", "jobName": "inf-a", **members})))


def test_the_contract_of_a_run_is_the_golden_one() -> None:
    nested = config(
        kserve=GOLDEN["kserve"],
        storage={"input": GOLDEN["input"], "output": GOLDEN["output"]},
    )
    compiled = compile_run(run(parameters=GOLDEN["parameters"]), nested, defaults=Defaults(), runner_account="")
    assert json.loads(compiled.contract_json) == GOLDEN


def test_both_placements_of_the_model_give_the_same_contract() -> None:
    storage = {"input": GOLDEN["input"], "output": GOLDEN["output"]}
    given = run(parameters=GOLDEN["parameters"])
    flat = compile_run(given, config(**GOLDEN["kserve"], storage=storage), defaults=Defaults(), runner_account="")
    assert json.loads(flat.contract_json) == GOLDEN


def test_empty_members_are_left_out_and_kserve_is_always_there() -> None:
    assert dumped() == {"jobId": "u", "jobName": "inf-a", "kserve": {}}


def test_an_empty_field_of_the_model_is_left_out() -> None:
    assert dumped(kserve=Model(model_name="iris").model_dump()) == {
        "jobId": "u",
        "jobName": "inf-a",
        "kserve": {"modelName": "iris"},
    }


@pytest.mark.parametrize("storage", [{"own": {}}, {"own": None}, {"own": {"a": None, "b": [], "c": ""}}])
def test_storage_is_not_touched_below_its_top(storage: dict[str, Any]) -> None:
    assert dumped(input=storage)["input"] == storage


def test_letters_of_all_languages_stay_readable() -> None:
    assert "größe" in dump_contract(Contract(job_id="u", job_name="j", parameters={"größe": "1"}))


def test_the_runs_of_a_schedule_carry_the_schedules_uid_as_job_id_and_their_own_beside() -> None:
    owner = {"apiVersion": "ai.krateo.io/v1", "kind": "InferenceRun", "name": "nightly", "uid": "the-schedule"}
    labels = {"inferrun.dev/schedule-uid": "the-schedule"}
    child = run(metadata={"labels": labels, "ownerReferences": [owner]})
    contract = json.loads(compile_run(child, config(), defaults=Defaults(), runner_account="").contract_json)
    assert (contract["jobId"], contract["runId"]) == ("the-schedule", UID)


def test_a_label_alone_does_not_lend_a_run_another_ones_identity() -> None:
    forger = run(metadata={"labels": {"inferrun.dev/schedule-uid": "somebody-else"}})
    contract = json.loads(compile_run(forger, config(), defaults=Defaults(), runner_account="").contract_json)
    assert contract["jobId"] == UID
