"""The contract as runner images read it, compared as JSON with that of the Krateo controller."""

import json
from pathlib import Path
from typing import Any

import pytest

from inferrun.contract import Contract, Model, dump_contract
from inferrun.launches.compilation import compile_run
from inferrun.run_defaults import Defaults
from tests.unit.objects import UID, config, run

GOLDEN = json.loads(
    (Path(__file__).parent / "golden" / "contract.json").read_text(encoding="utf-8")
)


def dumped(**members: Any) -> Any:  # Any: the JSON that is compared
    return json.loads(
        dump_contract(Contract.model_validate({"jobId": "u", "jobName": "inf-a", **members}))
    )


def test_the_contract_of_a_run_equals_the_golden_file() -> None:
    nested = config(
        kserve=GOLDEN["kserve"],
        storage={"input": GOLDEN["input"], "output": GOLDEN["output"]},
    )
    compiled = compile_run(
        run(parameters=GOLDEN["parameters"]), nested, defaults=Defaults(), runner_account=""
    )
    assert json.loads(compiled.contract_json) == GOLDEN


def test_both_placements_of_the_model_give_the_same_contract() -> None:
    storage = {"input": GOLDEN["input"], "output": GOLDEN["output"]}
    given = run(parameters=GOLDEN["parameters"])
    flat = compile_run(
        given, config(**GOLDEN["kserve"], storage=storage), defaults=Defaults(), runner_account=""
    )
    assert json.loads(flat.contract_json) == GOLDEN


def test_empty_members_are_omitted_except_for_kserve() -> None:
    assert dumped() == {"jobId": "u", "jobName": "inf-a", "kserve": {}}


def test_an_empty_field_of_the_model_is_omitted() -> None:
    assert dumped(kserve=Model(model_name="iris").model_dump()) == {
        "jobId": "u",
        "jobName": "inf-a",
        "kserve": {"modelName": "iris"},
    }


@pytest.mark.parametrize(
    "storage", [{"own": {}}, {"own": None}, {"own": {"a": None, "b": [], "c": ""}}]
)
def test_storage_objects_are_copied_unmodified(storage: dict[str, Any]) -> None:
    assert dumped(input=storage)["input"] == storage


def test_non_ascii_characters_are_not_escaped() -> None:
    assert "größe" in dump_contract(Contract(job_id="u", job_name="j", parameters={"größe": "1"}))


def test_a_run_of_a_schedule_has_the_schedules_uid_as_job_id_and_its_own_as_run_id() -> None:
    owner = {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceRun",
        "name": "nightly",
        "uid": "the-schedule",
    }
    labels = {"inferrun.dev/schedule-uid": "the-schedule"}
    child = run(metadata={"labels": labels, "ownerReferences": [owner]})
    contract = json.loads(
        compile_run(child, config(), defaults=Defaults(), runner_account="").contract_json
    )
    assert (contract["jobId"], contract["runId"]) == ("the-schedule", UID)


def test_a_label_without_an_owner_does_not_give_a_run_the_schedules_uid() -> None:
    forger = run(metadata={"labels": {"inferrun.dev/schedule-uid": "somebody-else"}})
    contract = json.loads(
        compile_run(forger, config(), defaults=Defaults(), runner_account="").contract_json
    )
    assert contract["jobId"] == UID
