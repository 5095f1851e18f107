"""Finds, reads and kills Pods."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from examples.demo import runs
from examples.demo.terminal import DemoFailed, Terminal


def labels(terminal: Terminal, run: str) -> str:
    """A selector for the run's Pods. It uses the UID because the name may be too long for a
    label."""
    return f"inferrun.dev/run-uid={runs.uid(terminal, run)}"


def wait_until_predicted(terminal: Terminal, run: str, *, records: int) -> None:
    """Wait for the moment to disturb a run. Raises DemoFailed if it ends before that."""

    def probe() -> bool | None:
        if runs.status(terminal, run).get("phase") in ("Succeeded", "Failed"):
            raise DemoFailed(
                f"the run ended before it could be disturbed: {runs.summary(terminal, run)}"
            )
        return _predicted(terminal, run) >= records or None

    terminal.wait(
        f"{records} records are predicted",
        probe,
        timeout=180,
        state=lambda: runs.summary(terminal, run),
    )


def _predicted(terminal: Terminal, run: str) -> int:
    """The number of predicted records according to the Pod's log, which is a few seconds ahead of
    the status."""
    if not runs.status(terminal, run).get("jobStatus"):
        return 0
    command = f"kubectl logs -n {runs.NAMESPACE} -l {labels(terminal, run)} --tail=20"
    log = terminal.read(command) if terminal.succeeds(command) else ""
    entries = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    return max(
        (entry["records"]["completed"] for entry in entries if entry.get("event") == "progress"),
        default=0,
    )


@dataclass(frozen=True)
class Pod:
    """A running Pod and the id of its container."""

    name: str
    namespace: str
    container: str


def running(terminal: Terminal, *, namespace: str, labels: str) -> list[Pod]:
    """The running Pods with these labels; at least one."""
    text = terminal.read(
        f"kubectl get pods -n {namespace} -l {labels} --field-selector=status.phase=Running -o json"
    )
    found = json.loads(text)["items"]
    if not found:
        raise DemoFailed(f"no running Pod in {namespace} has the labels {labels}")
    return [
        Pod(
            pod["metadata"]["name"],
            namespace,
            pod["status"]["containerStatuses"][0]["containerID"].partition("://")[2],
        )
        for pod in found
    ]


def of_run(terminal: Terminal, run: str) -> Pod:
    """The running Pod of a run."""
    return running(terminal, namespace=runs.NAMESPACE, labels=labels(terminal, run))[0]


def kill(terminal: Terminal, pod: Pod) -> None:
    """Kill the container's processes if they run on this machine and may be signalled, else delete
    the Pod by force."""
    processes = f"grep -ls {pod.container} /proc/[0-9]*/cgroup | cut -d/ -f3"
    if os.geteuid() == 0 and terminal.read(f"{processes} || true").strip():
        terminal.run(f"kill -9 $({processes})  # {pod.name}")
    else:
        terminal.run(f"kubectl delete pod {pod.name} -n {pod.namespace} --grace-period=0 --force")
