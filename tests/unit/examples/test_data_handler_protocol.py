"""The data handler of the examples: what a request's body means.

The file is loaded by its path, because its folder holds an image, not a package.
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
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_parameters_that_are_texts_limit_the_rows(protocol: ModuleType) -> None:
    request = protocol.input_request({"input_table_name": "iris", "limit": "10", "skip": "5", "unknown": "x"})
    assert (request.table, request.skip, request.limit) == ("iris", 5, 10)


def test_without_limits_the_whole_table_is_asked_for(protocol: ModuleType) -> None:
    request = protocol.input_request({"input_table_name": "iris"})
    assert (request.skip, request.limit) == (0, None)


@pytest.mark.parametrize("wrong", ["ten", "-1", "1.5", "", [], True])
def test_a_limit_that_is_no_count_is_refused_by_its_name(protocol: ModuleType, wrong: object) -> None:
    with pytest.raises(protocol.BadRequest, match=r"^limit: a whole number"):
        protocol.input_request({"input_table_name": "iris", "limit": wrong})


@pytest.mark.parametrize("key", ["job_uid", "pod_uid", "predictions", "output_table_name"])
def test_a_store_request_lacking_a_key_is_refused_by_its_name(protocol: ModuleType, key: str) -> None:
    with pytest.raises(protocol.BadRequest, match=f"^{key}: a text is wanted"):
        protocol.output_request({name: value for name, value in STORE.items() if name != key})


def test_predictions_are_numbers_in_the_order_of_the_records(protocol: ModuleType) -> None:
    request = protocol.output_request(STORE)
    assert (request.values, request.first) == ((0.0, 1.5), 0)


def test_a_chunk_says_where_its_predictions_belong(protocol: ModuleType) -> None:
    assert protocol.output_request({**STORE, "chunk": 2, "offset": 2000}).first == 2000


def test_a_parameter_of_the_run_named_offset_moves_nothing(protocol: ModuleType) -> None:
    assert protocol.output_request({**STORE, "offset": "7"}).first == 0


@pytest.mark.parametrize("wrong", ["[0, null]", '["1"]', "[true]", "{}", "[0"])
def test_predictions_that_are_no_array_of_numbers_are_refused(protocol: ModuleType, wrong: str) -> None:
    with pytest.raises(protocol.BadRequest, match=r"^predictions"):
        protocol.output_request({**STORE, "predictions": wrong})


def test_a_failure_is_shown_only_to_the_request_that_asks_for_it(protocol: ModuleType) -> None:
    body = {"fail": "output"}
    assert protocol.wants_failure(body, of="output")
    assert not protocol.wants_failure(body, of="input")
