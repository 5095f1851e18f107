"""Scene 1: the main job, with the first thing that goes wrong in practice, and its cure."""

from __future__ import annotations

import csv
import io

from examples.demo import model, runs
from examples.demo.stage import BrokenPromise, Stage

TITLE = "Scene 1 of 5 · A run waits for a Secret, says so, and goes on"
STORY = """
A model server with a scikit-learn model, a table of 150 irises in PostgreSQL, and a data handler between the runs and the
table. One resource says how they belong together, one starts a run. The handler's address and token are in a Secret, and
that is in another namespace.
"""
RUN = "iris-january"
WATCH = f"kubectl get inferencerun {RUN} -n {runs.NAMESPACE}"

PSQL = f"kubectl exec -n {runs.NAMESPACE} deploy/postgres -- psql"

# A retry of the mount by the kubelet comes after two minutes at worst.
GOES_ON_WITHIN = 150


def play(stage: Stage) -> None:
    stage.type("kubectl apply -f examples/iris-config.yaml -f examples/iris-run.yaml")
    waiting = runs.wait_for_reason(stage, RUN, "SecretNotFound", within=60)
    stage.type(WATCH)
    stage.type(WATCH + """ -o jsonpath='{.status.message}{"\\n"}'""")

    stage.look_for("The message ends with a command. Type it as it stands; the run needs nothing else:")
    stage.type(cure_in(waiting["message"]))
    done = runs.wait_for_success(stage, RUN, within=GOES_ON_WITHIN)
    stage.type(WATCH)

    stage.look_for("The predictions are in the table: jobuid is the UID of the run, counter the position in the input.")
    uid = (runs.get(stage, "inferencerun", RUN) or {})["metadata"]["uid"]
    first_five = (
        "select counter, sepal_length, sepal_width, petal_length, petal_width, prediction"  # noqa: S608 - a UID from Kubernetes
        f" from iris_predictions join iris on id = counter + 1 where jobuid = '{uid}' order by counter limit 5"
    )
    stage.type(f'{PSQL} -c "{first_five}"')
    stage.promise(done["records"] == {"total": 150, "completed": 150, "failed": 0}, "status counts 150 of 150 records")
    _compare(stage, uid)


def cure_in(message: str) -> str:
    _, found, command = message.partition("inferrun copy-secret ")
    if not found:
        raise BrokenPromise(f"the status message holds no command: {message}")
    return found + command.rstrip("`. ")


def _compare(stage: Stage, uid: str) -> None:
    """What the table holds against what scikit-learn says for the same rows, asked without server and runner."""
    flowers = _table(stage, "select sepal_length, sepal_width, petal_length, petal_width from iris order by id")
    stored = _table(stage, f"select counter, prediction from iris_predictions where jobuid = '{uid}' order by counter")  # noqa: S608
    expected = model.predictions(stage, "sklearn-iris", flowers)
    stage.promise(len(stored) == 150, "150 predictions are stored", but=f"{len(stored)} are")
    same = sum(row == [place, klass] for place, (row, klass) in enumerate(zip(stored, expected, strict=True)))
    stage.promise(same == 150, f"{same} of 150 equal what scikit-learn itself says for the same rows")


def _table(stage: Stage, query: str) -> list[list[float]]:
    text = stage.read(f'{PSQL} --csv --tuples-only -c "{query}"')
    return [[float(value) for value in row] for row in csv.reader(io.StringIO(text))]
