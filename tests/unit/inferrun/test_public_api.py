"""The names that other programs import from `inferrun`."""

import subprocess
import sys

import pytest

import inferrun

EXPORTS = [
    "Contract",
    "Delivery",
    "ExitCode",
    "InferenceConfig",
    "InferenceConfigSpec",
    "InferenceConfigStatus",
    "InferenceRun",
    "InferenceRunSpec",
    "InferenceRunStatus",
    "InvalidSubmission",
    "Output",
    "Phase",
    "Reason",
    "RecordCounts",
    "RunRef",
    "RunResult",
    "RunnerResult",
    "Submission",
    "dump_contract",
    "dump_result",
    "job_base_name",
    "job_name",
    "parse_config",
    "parse_run",
    "parse_submission",
    "run_workflow_id",
    "schedule_id",
    "scheduled_run_name",
    "submitted_run_name",
]

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


def test_the_exports_are_these() -> None:
    """A name that is missing here breaks other programs; a name that is added must be kept."""
    assert inferrun.__all__ == EXPORTS


@pytest.mark.parametrize("name", EXPORTS)
def test_every_export_is_there(name: str) -> None:
    assert getattr(inferrun, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        getattr(inferrun, "Nothing")  # noqa: B009 -- the static form does not type-check


def test_importing_the_library_loads_no_models() -> None:
    assert "pydantic" not in packages_loaded_by()


def test_the_exports_load_neither_temporal_nor_kubernetes_nor_an_http_client() -> None:
    assert packages_loaded_by(*EXPORTS).isdisjoint({"temporalio", "kubernetes", "aiohttp", "httpx", "croniter", "yaml"})
