"""Request bodies are JSON that the API server reads, whatever text or number an object contains."""

import json

import pytest

from inferrun.kube.client import encode


@pytest.mark.parametrize(
    "value", ["plain", "\u00e9\n", "\ud83d", 2**64, 1.5, None, ["a", {"b": 1}]]
)
def test_every_value_is_sent(value: object) -> None:
    assert json.loads(encode({"value": value})) == {"value": value}
