"""Scene 2: the worker and the Pod are killed during a run, and no record is lost or predicted twice."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from examples.demo import model, runs
from examples.demo.terminal import DemoFailed, Terminal

TITLE = "Scene 2 of 6 · The worker and the Pod are killed during a run"
STORY = """
20,000 records in a file on a PersistentVolumeClaim, and a slow model. During the run, the worker, which follows the run, and the
Pod, which computes the predictions, are killed. The run continues in a new Pod after the last committed chunk.
"""
RUN = "measurements"
RECORDS = 20_000
SYSTEM = "inferrun-system"


def play(terminal: Terminal) -> None:
    _create_input(terminal)
    terminal.run("kubectl apply -f examples/file-run.yaml")
    terminal.wait(
        "a fifth of the records is predicted",
        lambda: _is_a_fifth_done(terminal),
        timeout=90,
        state=lambda: runs.summary(terminal, RUN),
    )

    terminal.explain("Kill the worker first, so that it cannot observe what happens next, and then the Pod:")
    worker = _pod(terminal, namespace=SYSTEM, labels="app.kubernetes.io/component=worker")
    _kill(terminal, worker)
    _kill(terminal, _pod(terminal, namespace=runs.NAMESPACE, labels=_labels(terminal)))
    terminal.check(runs.status(terminal, RUN).get("phase") != "Succeeded", "the run has not finished yet")
    terminal.run(f"kubectl get pods -n {runs.NAMESPACE} -l {_labels(terminal)}")

    done = runs.wait_for_success(terminal, RUN, timeout=300)
    terminal.run(f"kubectl get inferencerun {RUN} -n {runs.NAMESPACE} -o wide")
    terminal.check(
        done.get("attempt", 0) >= 2, f"attempt {done.get('attempt')}: the killed one was detected and counted"
    )
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


def _is_a_fifth_done(terminal: Terminal) -> bool | None:
    current = runs.status(terminal, RUN)
    if current.get("phase") in ("Succeeded", "Failed"):
        raise DemoFailed(f"the run ended before it could be disturbed: {runs.summary(terminal, RUN)}")
    return _predicted(terminal) >= RECORDS / 5 or None


def _predicted(terminal: Terminal) -> int:
    """The number of predicted records according to the Pod's log, which is a few seconds ahead of the status."""
    if not runs.status(terminal, RUN).get("jobStatus"):
        return 0
    command = f"kubectl logs -n {runs.NAMESPACE} -l {_labels(terminal)} --tail=20"
    log = terminal.read(command) if terminal.succeeds(command) else ""
    entries = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    return max((entry["records"]["completed"] for entry in entries if entry.get("event") == "progress"), default=0)


def _labels(terminal: Terminal) -> str:
    """A selector for the run's Pods. It uses the UID because the name may be too long for a label."""
    return f"inferrun.dev/run-uid={runs.uid(terminal, RUN)}"


@dataclass(frozen=True)
class Pod:
    """A running Pod and the id of its container."""

    name: str
    namespace: str
    container: str


def _pod(terminal: Terminal, *, namespace: str, labels: str) -> Pod:
    """The running Pod with these labels."""
    text = terminal.read(f"kubectl get pods -n {namespace} -l {labels} --field-selector=status.phase=Running -o json")
    found = json.loads(text)["items"]
    if not found:
        raise DemoFailed(f"no running Pod in {namespace} has the labels {labels}")
    identity = found[0]["status"]["containerStatuses"][0]["containerID"]
    return Pod(name=found[0]["metadata"]["name"], namespace=namespace, container=identity.partition("://")[2])


def _kill(terminal: Terminal, pod: Pod) -> None:
    """Kill the container's processes if they run on this machine and may be signalled, else delete the Pod by force."""
    processes = f"grep -ls {pod.container} /proc/[0-9]*/cgroup | cut -d/ -f3"
    if os.geteuid() == 0 and terminal.read(f"{processes} || true").strip():
        terminal.run(f"kill -9 $({processes})  # {pod.name}")
    else:
        terminal.run(f"kubectl delete pod {pod.name} -n {pod.namespace} --grace-period=0 --force")


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
    same = sum(result["prediction"] == klass for result, klass in zip(results, expected, strict=True))
    terminal.check(
        same == RECORDS,
        f"all {RECORDS} predictions equal those of scikit-learn, called directly",
        found=f"{same} equal",
    )


def _lines(terminal: Terminal, files: str) -> list[runs.Object]:
    text = terminal.read(f'kubectl exec -n {runs.NAMESPACE} deploy/files -- sh -c "cat {files}"')
    return [json.loads(line) for line in text.splitlines()]
