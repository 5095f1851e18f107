"""How the example data handler parses requests.

The module is loaded by its path, because its directory is a build context, not a package.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROTOCOL = Path(__file__).parents[3] / "examples" / "data-handler" / "protocol.py"
STORE = {"output_table_name": "p", "job_uid": "j", "pod_uid": "u", "predictions": "[0, 1.5]"}


@pytest.fixture(scope="module")
def protocol() -> ModuleType:
    spec = importlib.util.spec_from_file_location("examples_data_handler_protocol", PROTOCOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # required by dataclasses
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("wrong", ["ten", "-1", "1.5", "", [], True])
def test_an_invalid_limit_is_rejected_with_its_name(protocol: ModuleType, wrong: object) -> None:
    with pytest.raises(protocol.BadRequest, match=r"^limit: expected an integer"):
        protocol.input_request({"input_table_name": "iris", "limit": wrong})


@pytest.mark.parametrize("key", ["job_uid", "pod_uid", "predictions", "output_table_name"])
def test_a_missing_key_is_rejected_with_its_name(protocol: ModuleType, key: str) -> None:
    with pytest.raises(protocol.BadRequest, match=f"^{key}: expected a non-empty string"):
        protocol.output_request({name: value for name, value in STORE.items() if name != key})


def test_the_offset_of_a_chunk_is_used(protocol: ModuleType) -> None:
    assert protocol.output_request({**STORE, "chunk": 2, "offset": 2000}).first == 2000


@pytest.mark.parametrize("wrong", ["[0, null]", '["1"]', "[true]", "{}", "[0"])
def test_predictions_other_than_an_array_of_numbers_are_rejected(
    protocol: ModuleType, wrong: str
) -> None:
    with pytest.raises(protocol.BadRequest, match=r"^predictions"):
        protocol.output_request({**STORE, "predictions": wrong})
