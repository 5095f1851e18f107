"""The storage object of the label `file`."""

from typing import Any

import pytest

from inferrun.plugins import ContractError
from inferrun.plugins.storage import read_spec
from runner.stores.file.spec import FileSpec


def test_only_claim_and_path_are_required() -> None:
    spec = read_spec({"claimName": "data", "path": "in/rows.jsonl"}, FileSpec, field="input.file")
    assert (spec.claim_name, spec.path, spec.format) == ("data", "in/rows.jsonl", "jsonl")


@pytest.mark.parametrize(
    ("spec", "field", "allowed"),
    [
        ({"path": "a"}, "input.file.claimName", "required"),
        ({"claimName": "c"}, "input.file.path", "required"),
        ({"claimName": "c", "path": ""}, "input.file.path", "at least 1"),
        ({"claimName": "c", "path": "/etc/passwd"}, "input.file.path", 'without ".."'),
        ({"claimName": "c", "path": "a/../../b"}, "input.file.path", 'without ".."'),
        ({"claimName": "c", "path": 5}, "input.file.path", "valid string"),
        ({"claimName": "c", "path": "a", "pathh": "b"}, "input.file.pathh", "not permitted"),
    ],
)
def test_an_invalid_object_is_reported_with_its_field(spec: dict[str, Any], field: str, allowed: str) -> None:
    with pytest.raises(ContractError) as rejected:
        read_spec(spec, FileSpec, field="input.file")
    assert str(rejected.value).startswith(f"{field}:")
    assert allowed in str(rejected.value)
