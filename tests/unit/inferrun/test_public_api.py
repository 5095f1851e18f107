"""The names that other programs import from `inferrun`, which the generated page
docs/reference/python.md pins."""

import subprocess
import sys

import pytest

import inferrun

IMPORT_AND_LIST = """
import importlib, sys
module = importlib.import_module(sys.argv[1])
for name in sys.argv[2:]:
    getattr(module, name)
print(*{name.partition(".")[0] for name in sys.modules})
"""
CLIENTS = {"temporalio", "kubernetes", "aiohttp", "httpx", "croniter", "yaml"}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        getattr(inferrun, "Nothing")  # noqa: B009 -- the static form does not type-check


@pytest.mark.parametrize(
    ("words", "forbidden"),
    [
        (["inferrun", *inferrun.__all__], CLIENTS),
        (["inferrun.plugins"], CLIENTS - {"croniter", "yaml"}),
    ],
    ids=["library", "plug-ins"],
)
def test_the_exports_load_neither_temporal_nor_kubernetes_nor_an_http_client(
    words: list[str], forbidden: set[str]
) -> None:
    command = [sys.executable, "-c", IMPORT_AND_LIST, *words]
    loaded = set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    assert loaded.isdisjoint({*forbidden, "inferrun_runner", "workflows", "activities"})
