"""The contract and the settings: what is taken, and how a wrong one is told."""

from pathlib import Path
from typing import Any

import pytest

from runner.errors import ContractError
from runner.settings import read_settings
from runner.work_order import only_label, parse_contract, read_contract

OLD = b"""{"jobId": "5be07ada", "jobName": "inf-a-5be07ada", "kserve": {"modelName": "iris", "modelUrl": "host/v2"},
 "input": {"krateo": {"api": {}}}, "output": {"krateo": {"api": {}}}, "parameters": {"a": "b"}}"""


def test_a_contract_of_the_old_controller_is_taken() -> None:
    contract = parse_contract(OLD)
    assert (contract.job_id, contract.run_id, contract.kserve.model_name) == ("5be07ada", "", "iris")


@pytest.mark.parametrize(
    ("text", "field", "what"),
    [
        (b"", "", "Invalid JSON"),
        (b"{", "", "Invalid JSON"),
        (b"[]", "", "should be an object"),
        (b"{}", "jobId", "is required"),
        (b'{"jobId": 5, "jobName": "a"}', "jobId", "valid string; it is '5'"),
        (b'{"jobId": "a", "jobName": "b", "kserve": {"modelUrl": 1}}', "kserve.modelUrl", "valid string"),
        (b'{"jobId": "a", "jobName": "b", "parameters": {"n": 1}}', "parameters.n", "valid string"),
        (b'{"jobId": "a", "jobName": "b", "input": []}', "input", "should be an object"),
    ],
)
def test_a_wrong_contract_names_the_field(text: bytes, field: str, what: str) -> None:
    with pytest.raises(ContractError) as refused:
        parse_contract(text)
    assert str(refused.value).startswith(f"contract.json: {field}")
    assert what in str(refused.value)


def test_a_missing_contract_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ContractError, match="No such file or directory"):
        read_contract(tmp_path / "contract.json")


@pytest.mark.parametrize(
    ("storage", "text"),
    [
        ({}, "input: exactly one storage label is required, it is empty"),
        ({"krateo": {}, "file": {}}, "it has file, krateo"),
        ({"file": "x"}, "input.file: an object is required"),
    ],
)
def test_a_storage_map_must_have_one_label(storage: dict[str, Any], text: str) -> None:
    with pytest.raises(ContractError, match=text):
        only_label(storage, side="input")


def test_settings_have_defaults_and_take_what_the_pod_says() -> None:
    settings = read_settings({"pod_uid": "u", "INFERRUN_SECONDS_LEFT": "12.5", "INFERRUN_ATTEMPT": "2", "PATH": "/bin"})
    assert (settings.pod_uid, settings.seconds_left, settings.attempt) == ("u", 12.5, 2)
    assert read_settings({}).seconds_left is None
    assert read_settings({"INFERRUN_SECONDS_LEFT": ""}).seconds_left is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("INFERRUN_SECONDS_LEFT", "soon"), ("INFERRUN_BATCH_ROWS", "0"), ("INFERRUN_CONCURRENCY", "1000")],
)
def test_a_wrong_setting_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(ContractError, match=f"environment variable {name}: .*{value}"):
        read_settings({name: value})
