"""Scene 5: runs that a program starts, with nothing of ours but a workflow's name and one JSON object."""

from __future__ import annotations

import json
import time

from examples.demo import runs
from examples.demo.stage import Stage, quoted

TITLE = "Scene 5 of 5 · A run from a program"
STORY = """
Whoever speaks to Temporal can start runs: a program, another workflow, the command line. The first command is a program of
a few lines that uses the plain Temporal client; the second is Temporal's own command line.
"""


def play(stage: Stage) -> None:
    moment = time.strftime("%m%d-%H%M%S")
    by_program, by_shell = f"iris-from-a-program-{moment}", f"iris-from-the-shell-{moment}"
    stage.type(f".venv/bin/python examples/from_a_program.py --id {by_program}", within=120)
    request = {
        "namespace": runs.NAMESPACE,
        "configRef": "iris",
        "parameters": {"input_table_name": "iris", "output_table_name": "iris_predictions", "limit": "50"},
    }
    stage.type(
        f"temporal workflow execute --type SubmitInferenceRun --task-queue inferrun --workflow-id {by_shell}"
        f" --input {quoted(json.dumps(request))}",
        within=120,
    )
    for name in (by_program, by_shell):
        stage.promise(runs.status(stage, name).get("phase") == "Succeeded", f"{name} is an InferenceRun like any other")
