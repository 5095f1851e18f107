"""Scene 5: runs started through Temporal, with only a workflow's name and a JSON object."""

from __future__ import annotations

import json
import time

from examples.demo import runs
from examples.demo.terminal import Terminal, quoted

TITLE = "Start a run from a program"
STORY = """
Any Temporal client can start runs: a program, another workflow, the command line. The first command below is a short program that
uses the plain Temporal client; the second is Temporal's own command line.
"""


def play(terminal: Terminal) -> None:
    suffix = time.strftime("%m%d-%H%M%S")
    started = [f"iris-from-a-program-{suffix}"]
    terminal.run(f".venv/bin/python examples/from_a_program.py --id {started[0]}", timeout=120)
    if terminal.succeeds("command -v temporal"):
        started.append(f"iris-from-the-shell-{suffix}")
        _start_from_shell(terminal, started[1])
    else:
        terminal.info("Skipped Temporal's command line, because temporal is not on PATH.")
    for name in started:
        terminal.check(
            runs.status(terminal, name).get("phase") == "Succeeded",
            f"{name} is an InferenceRun and has succeeded",
        )


def _start_from_shell(terminal: Terminal, name: str) -> None:
    request = {
        "namespace": runs.NAMESPACE,
        "configRef": "iris",
        "parameters": {
            "input_table_name": "iris",
            "output_table_name": "iris_predictions",
            "limit": "50",
        },
    }
    terminal.run(
        f"temporal workflow execute --type SubmitInferenceRun --task-queue inferrun --workflow-id {name}"
        f" --input {quoted(json.dumps(request))}",
        timeout=120,
    )
