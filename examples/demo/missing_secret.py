"""Scene 1: a run of the main kind, with the most common first problem, a missing Secret, and its
fix."""

from __future__ import annotations

import csv
import io
import re

from examples.demo import model, runs
from examples.demo.terminal import DemoFailed, Terminal

TITLE = "A run waits for a missing Secret"
STORY = """
There is a model server with a scikit-learn model, a PostgreSQL table with 150 irises, and a data handler that serves the table
over HTTP. An InferenceConfig describes how they are connected; an InferenceRun starts a run. The data handler's URL and token are
in a Secret, but the Secret is in another namespace.
"""
RUN = "iris-january"
GET = f"kubectl get inferencerun {RUN} -n {runs.NAMESPACE}"

PSQL = f"kubectl exec -n {runs.NAMESPACE} deploy/postgres -- psql"

# The kubelet retries a mount after two minutes at most.
RESUMES_WITHIN_SECONDS = 150


def play(terminal: Terminal) -> None:
    terminal.run("kubectl apply -f examples/iris-config.yaml -f examples/iris-run.yaml")
    waiting = runs.wait_for_reason(terminal, RUN, "SecretNotFound", timeout=60)
    terminal.run(GET)
    terminal.run(GET + """ -o jsonpath='{.status.message}{"\\n"}'""")

    terminal.explain(
        "The message ends with the command that fixes the problem. After that, the run resumes automatically:"
    )
    terminal.run(command_in(waiting["message"]))
    done = runs.wait_for_success(terminal, RUN, timeout=RESUMES_WITHIN_SECONDS)
    terminal.run(GET)

    terminal.explain(
        "The predictions are in the table: jobuid is the UID of the run, counter the position in the input."
    )
    uid = runs.uid(terminal, RUN)
    first_five = (
        "select counter, sepal_length, sepal_width, petal_length, petal_width, prediction"  # noqa: S608 -- a UID from Kubernetes
        f" from iris_predictions join iris on id = counter + 1 where jobuid = '{uid}' order by counter limit 5"
    )
    terminal.run(f'{PSQL} -c "{first_five}"')
    terminal.check(
        done["records"] == {"total": 150, "completed": 150, "failed": 0},
        "the status counts 150 of 150 records",
    )
    _compare(terminal, uid)


def command_in(message: str) -> str:
    """The command at the end of a status message."""
    found = re.search(r"\b(kubectl get secret|inferrun copy-secret) .*", message)
    if found is None:
        raise DemoFailed(f"the status message contains no command: {message}")
    return found[0].rstrip("`. ")


def _compare(terminal: Terminal, uid: str) -> None:
    """Compare the table with the predictions of scikit-learn itself."""
    flowers = _table(
        terminal,
        "select sepal_length, sepal_width, petal_length, petal_width from iris order by id",
    )
    stored = _table(
        terminal,
        f"select counter, prediction from iris_predictions where jobuid = '{uid}' order by counter",  # noqa: S608 -- as above
    )
    expected = model.predictions(terminal, "sklearn-iris", flowers)
    terminal.check(len(stored) == 150, "the table contains 150 predictions", found=str(len(stored)))
    same = sum(
        row == [place, klass]
        for place, (row, klass) in enumerate(zip(stored, expected, strict=True))
    )
    terminal.check(
        same == 150, "all 150 equal those of scikit-learn, called directly", found=f"{same} equal"
    )


def _table(terminal: Terminal, query: str) -> list[list[float]]:
    text = terminal.read(f'{PSQL} --csv --tuples-only -c "{query}"')
    return [[float(value) for value in row] for row in csv.reader(io.StringIO(text))]
