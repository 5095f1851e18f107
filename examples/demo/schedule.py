"""Scene 4: a schedule creates a run, and is suspended. The demo plays other scenes until its minute
has come."""

from __future__ import annotations

import json

from examples.demo import runs
from examples.demo.terminal import DemoFailed, Terminal

TITLE = "A schedule"
STORY = """
An InferenceRun with spec.schedule is a schedule. It is executed by Temporal, and creates an InferenceRun each time.
"""
LATER = """
Meanwhile the minute of the schedule has come, or is about to.
"""
RUN = "iris-every-minute"


def play(terminal: Terminal) -> None:
    terminal.run("kubectl apply -f examples/schedule.yaml")
    scheduled = runs.wait_for_reason(terminal, RUN, "Scheduled", timeout=30)
    times = scheduled.get("nextScheduleTimes", [])
    terminal.check(bool(times), f"the status lists the next times: {', '.join(times)}")


def conclude(terminal: Terminal) -> None:
    """What follows once the schedule has fired."""
    child = terminal.wait(
        "the run of the next minute has succeeded",
        lambda: _succeeded_child(terminal),
        timeout=130,
        state=lambda: runs.summary(terminal, RUN),
    )
    terminal.run(f"kubectl get inferenceruns -n {runs.NAMESPACE}")
    terminal.passed(f"{child} was created by the schedule")

    terminal.explain(
        "A suspended schedule creates no runs. Deleting the InferenceRun also deletes its Temporal schedule."
    )
    terminal.run(
        f"""kubectl patch inferencerun {RUN} -n {runs.NAMESPACE} --type=merge -p '{{"spec": {{"suspend": true}}}}'"""
    )
    runs.wait_for_reason(terminal, RUN, "Suspended", timeout=30)


def _succeeded_child(terminal: Terminal) -> str | None:
    selector = f"inferrun.dev/schedule-uid={runs.uid(terminal, RUN)}"
    children = terminal.read(f"kubectl get inferenceruns -n {runs.NAMESPACE} -l {selector} -o json")
    for run in json.loads(children)["items"]:
        current = run.get("status", {})
        if current.get("phase") == "Failed":
            raise DemoFailed(
                f"{run['metadata']['name']} failed: {current.get('reason')}: {current.get('message')}"
            )
        if current.get("phase") == "Succeeded":
            return str(run["metadata"]["name"])
    return None
