"""Scene 6: fifty runs wait for something that will never come; the others are not slowed down by
them."""

from __future__ import annotations

import json
import time
from datetime import datetime

from examples.demo import runs
from examples.demo.terminal import Terminal, seconds_since

TITLE = "Fifty runs that wait forever"
STORY = """
The Pods of these fifty runs request a thousand CPUs, which no node has. They wait, and each status says why. A waiting run
occupies nothing: no thread, no slot of a worker, no open request. Another run starts as if they were not there.
"""
WAITING = 50
SELECTOR = "example=waiting"
GET_WAITING = f"kubectl get inferenceruns -n {runs.NAMESPACE} -l {SELECTOR}"
BESIDE = "iris-beside-fifty"
JOB_WITHIN_SECONDS = 5
"""The API server records whole seconds, and the cluster of the demo may be busy; normally the Job
follows in less than one."""


def play(terminal: Terminal) -> None:
    terminal.run("kubectl apply -f examples/waiting-config.yaml")
    terminal.run(
        f"for number in $(seq {WAITING}); do sed s/iris-waiting-1/iris-waiting-$number/ examples/waiting-run.yaml; done"
        " | kubectl apply -f - | tail -n 3"
    )
    terminal.wait(
        f"all {WAITING} say that no node has room for them",
        lambda: _count_unschedulable(terminal) == WAITING or None,
        timeout=90,
        state=lambda: f"{_count_unschedulable(terminal)} of {WAITING}",
    )
    # reads to the end: kubectl would fail if its pipe were closed
    terminal.run(f"{GET_WAITING} | sed -n 1,4p")
    terminal.run(
        f"""kubectl get inferencerun iris-waiting-1 -n {runs.NAMESPACE} -o jsonpath='{{.status.message}}{{"\\n"}}'"""
    )

    terminal.explain("Beside them, a run like the one of scene 1:")
    began = time.monotonic()
    terminal.run(
        f"sed 's/name: iris-january/name: {BESIDE}/' examples/iris-run.yaml | kubectl apply -f -"
    )
    runs.wait_for_success(terminal, BESIDE, timeout=60)
    terminal.passed(f"150 records predicted {seconds_since(began)} after kubectl apply")
    delay = _seconds_until_job(terminal, BESIDE)
    terminal.check(
        delay <= JOB_WITHIN_SECONDS,
        f"its Job was created within {max(1, delay):.0f} s of the run",
        found=f"after {delay:.0f} s",
    )
    terminal.check(_count_unschedulable(terminal) == WAITING, f"the {WAITING} still wait")

    terminal.explain("Deleting a run deletes its Job and its Pod, also if it has never started.")
    terminal.run(f"kubectl delete inferenceruns -n {runs.NAMESPACE} -l {SELECTOR} | tail -n 3")
    terminal.wait("their Pods are gone", lambda: _has_no_pod(terminal) or None, timeout=90)


def _count_unschedulable(terminal: Terminal) -> int:
    found = json.loads(terminal.read(f"{GET_WAITING} -o json"))["items"]
    return sum(run.get("status", {}).get("reason") == "Unschedulable" for run in found)


def _seconds_until_job(terminal: Terminal, name: str) -> float:
    """Seconds between the creation of the run and that of its first Job, from their timestamps."""
    run = runs.get(terminal, "inferencerun", name) or {}
    job = runs.get(terminal, "job", run["status"]["jobStatus"]["name"]) or {}
    created = [datetime.fromisoformat(item["metadata"]["creationTimestamp"]) for item in (run, job)]
    return (created[1] - created[0]).total_seconds()


def _has_no_pod(terminal: Terminal) -> bool:
    pods = json.loads(terminal.read(f"kubectl get pods -n {runs.NAMESPACE} -o json"))["items"]
    return not any("iris-waiting-" in pod["metadata"]["name"] for pod in pods)
