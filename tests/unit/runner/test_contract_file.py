"""The contract: what is accepted, and how an invalid one is reported."""

from pathlib import Path
from typing import Any

import pytest

from inferrun.plugins import ContractError
from inferrun_runner.contract_file import only_label, parse_contract, read_contract

OLD = b"""{"jobId": "5be07ada", "jobName": "inf-a-5be07ada", "kserve": {"modelName": "iris", "modelUrl": "host/v2"},
 "input": {"krateo": {"api": {}}}, "output": {"krateo": {"api": {}}}, "parameters": {"a": "b"}}"""


def test_a_contract_of_the_krateo_controller_is_accepted() -> None:
    contract = parse_contract(OLD)
    assert (contract.job_id, contract.run_id, contract.kserve.model_name) == (
        "5be07ada",
        "",
        "iris",
    )


@pytest.mark.parametrize(
    ("text", "field", "problem"),
    [
        (b"", "", "Invalid JSON"),
        (b"{", "", "Invalid JSON"),
        (b"[]", "", "should be an object"),
        (b"{}", "jobId", "required"),
        (b'{"jobId": 5, "jobName": "a"}', "jobId", "valid string, got '5'"),
        (
            b'{"jobId": "a", "jobName": "b", "kserve": {"modelUrl": 1}}',
            "kserve.modelUrl",
            "valid string",
        ),
        (b'{"jobId": "a", "jobName": "b", "parameters": {"n": 1}}', "parameters.n", "valid string"),
        (b'{"jobId": "a", "jobName": "b", "input": []}', "input", "should be an object"),
    ],
)
def test_an_invalid_contract_is_reported_with_its_field(
    text: bytes, field: str, problem: str
) -> None:
    with pytest.raises(ContractError) as rejected:
        parse_contract(text)
    assert str(rejected.value).startswith(f"contract.json: {field}")
    assert problem in str(rejected.value)


def test_a_missing_contract_is_reported_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(
        ContractError,
        match=r"cannot read the contract at .*/contract\.json: No such file or directory",
    ):
        read_contract(tmp_path / "contract.json")


@pytest.mark.parametrize(
    ("storage", "text"),
    [
        ({}, "input: exactly one storage label is required, found none"),
        ({"krateo": {}, "file": {}}, "found file, krateo"),
        ({"file": "x"}, 'input.file is "x"; must be an object'),
    ],
)
def test_a_storage_map_must_have_one_label(storage: dict[str, Any], text: str) -> None:
    with pytest.raises(ContractError, match=text):
        only_label(storage, side="input")
