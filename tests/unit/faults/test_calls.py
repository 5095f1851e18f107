"""The list of calls with a side effect agrees with the source code."""

import ast
from pathlib import Path

import pytest

from campaigns.faults.call_sites import PASS_ON, ROOT, SCANNED, written_sites
from campaigns.faults.calls import CALLS

HOW_TO_LIST = "list it in campaigns/faults/calls.py, with a scenario in campaigns/faults/scenarios.py that makes it"


def test_every_call_with_a_side_effect_is_listed() -> None:
    missing = written_sites() - {site for site, _ in CALLS}
    assert not missing, f"{', '.join(sorted(missing))}: {HOW_TO_LIST}"


def test_every_listed_call_is_in_the_source() -> None:
    gone = {site for site, _ in CALLS} - written_sites()
    assert not gone, (
        f"{', '.join(sorted(gone))}: no such call; remove it from campaigns/faults/calls.py"
    )


def test_every_function_that_passes_calls_on_exists() -> None:
    for name in PASS_ON:
        module, _, function = name.partition(":")
        source = (ROOT / Path(*module.split("."))).with_suffix(".py").read_text()
        names = {
            node.name
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.AsyncFunctionDef)
        }
        assert function.split(".")[-1] in names, f"{name} does not exist: remove it from PASS_ON"


@pytest.mark.parametrize(
    "call",
    [
        "await self._api.create(JOBS, namespace, body)",
        "await api.patch(RUNS, namespace, name, body, sub='status')",
        "await api.delete(resource, namespace, name, uid=uid)",
        "await self._runs.update_status(run.ref, decide)",
        "await api.delete_if_present(PODS, namespace, name, uid=uid)",
        "await client.start_workflow('W', id='w', task_queue='q')",
        "await client.get_workflow_handle(identity).cancel()",
        "await client.get_schedule_handle(identity).delete()",
        "await signal_run(client, run, 'look_again')",
        "await self._workflows.cancel(run)",
    ],
)
def test_a_call_in_new_code_is_found(tmp_path: Path, call: str) -> None:
    for folder in SCANNED:
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "worker" / "novelty.py").write_text(
        f"class New:\n    async def act(self):\n        {call}\n"
    )
    assert written_sites(tmp_path) == {"worker.novelty:New.act"}
