"""Scene 2: the workers and the Pod are killed during a run, and no record is lost or predicted
twice."""

from __future__ import annotations

import json

from examples.demo import model, pods, runs
from examples.demo.terminal import Terminal

TITLE = "The workers and the Pod are killed during a run"
STORY = """
60,000 records in a file on a PersistentVolumeClaim, and a slow model. During the run, the workers, which follow the run, and the
Pod, which computes the predictions, are killed. The run continues in a new Pod after the last committed chunk.
"""
RUN = "measurements"
RECORDS = 60_000
SYSTEM = "inferrun-system"


def play(terminal: Terminal) -> None:
    _create_input(terminal)
    terminal.run("kubectl apply -f examples/file-run.yaml")
    pods.wait_until_predicted(terminal, RUN, records=RECORDS // 10)

    terminal.explain(
        "Kill the workers first, so that they cannot observe what happens next, and then the Pod:"
    )
    for worker in pods.running(
        terminal, namespace=SYSTEM, labels="app.kubernetes.io/component=worker"
    ):
        pods.kill(terminal, worker)
    pods.kill(terminal, pods.of_run(terminal, RUN))
    terminal.check(
        runs.status(terminal, RUN).get("phase") != "Succeeded", "the run has not finished yet"
    )
    terminal.run(f"kubectl get pods -n {runs.NAMESPACE} -l {pods.labels(terminal, RUN)}")

    done = runs.wait_for_success(terminal, RUN, timeout=300)
    terminal.run(f"kubectl get inferencerun {RUN} -n {runs.NAMESPACE} -o wide")
    launches = len(done.get("attempts", ()))
    terminal.check(launches >= 2, f"{launches} launches: the killed one was detected and listed")
    terminal.check(
        done["records"] == {"total": RECORDS, "completed": RECORDS, "failed": 0},
        f"the status counts {RECORDS} of {RECORDS} records",
    )
    location = done["output"]["location"]
    folder = location.partition("/")[2]
    terminal.run(
        f"kubectl exec -n {runs.NAMESPACE} deploy/files -- sh -c 'cd /data/{folder} && ls && head -n 2 predictions/part-000000-*'"
    )
    _check_results(terminal, location)


def _create_input(terminal: Terminal) -> None:
    terminal.run(
        f"kubectl exec -n {runs.NAMESPACE} deploy/files -- sh -c"
        f" 'rm -rf /data/predictions && python /models/measure.py {RECORDS} > /data/measurements.jsonl"
        " && head -n 2 /data/measurements.jsonl'"
    )


def _check_results(terminal: Terminal, location: str) -> None:
    """`location` has the form used in status: the claim's name, then the run's directory on it."""
    folder = location.partition("/")[2]
    records = _lines(terminal, "/data/measurements.jsonl")
    results = _lines(terminal, f"/data/{folder}/predictions/*")
    indices = [result["index"] for result in results]
    terminal.check(
        indices == list(range(RECORDS)),
        f"the output contains each index from 0 to {RECORDS - 1} once, in order",
        found=f"{len(indices)} lines, {len(set(indices))} distinct indices",
    )
    terminal.check(
        [result["custom_id"] for result in results] == [record["custom_id"] for record in records],
        "each prediction has the custom_id of its record",
    )
    expected = model.predictions(terminal, "iris-forest", [record["inputs"] for record in records])
    same = sum(
        result["prediction"] == klass for result, klass in zip(results, expected, strict=True)
    )
    terminal.check(
        same == RECORDS,
        f"all {RECORDS} predictions equal those of scikit-learn, called directly",
        found=f"{same} equal",
    )


def _lines(terminal: Terminal, files: str) -> list[runs.Object]:
    text = terminal.read(f'kubectl exec -n {runs.NAMESPACE} deploy/files -- sh -c "cat {files}"')
    return [json.loads(line) for line in text.splitlines()]
