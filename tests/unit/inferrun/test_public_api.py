"""The names that other programs import from `inferrun`, which the generated page docs/reference/python.md pins."""

import subprocess
import sys

import pytest

import inferrun

IMPORT_AND_LIST = """
import sys
import inferrun
for name in sys.argv[1:]:
    getattr(inferrun, name)
print(*{name.partition(".")[0] for name in sys.modules})
"""


def packages_loaded_by(*names: str) -> set[str]:
    command = [sys.executable, "-c", IMPORT_AND_LIST, *names]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize("name", inferrun.__all__)
def test_every_export_is_there(name: str) -> None:
    assert getattr(inferrun, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        getattr(inferrun, "Nothing")  # noqa: B009 -- the static form does not type-check


def test_importing_the_library_loads_no_models() -> None:
    assert "pydantic" not in packages_loaded_by()


def test_the_exports_load_neither_temporal_nor_kubernetes_nor_an_http_client() -> None:
    assert packages_loaded_by(*inferrun.__all__).isdisjoint(
        {"temporalio", "kubernetes", "aiohttp", "httpx", "croniter", "yaml"}
    )
