"""Scene 4: a schedule fires, and is suspended again."""

from __future__ import annotations

import json

from examples.demo import runs
from examples.demo.stage import BrokenPromise, Stage

TITLE = "Scene 4 of 5 · A schedule"
STORY = """
An InferenceRun with spec.schedule is a schedule: Temporal keeps the clock, and each fire creates an InferenceRun of its own.
"""
RUN = "iris-every-minute"


def play(stage: Stage) -> None:
    stage.type("kubectl apply -f examples/schedule.yaml")
    scheduled = runs.wait_for_reason(stage, RUN, "Scheduled", within=30)
    stage.promise(
        bool(scheduled.get("nextScheduleTimes")), f"next: {', '.join(scheduled.get('nextScheduleTimes', []))}"
    )
    child = stage.wait(
        "the next full minute's run succeeds",
        lambda: _succeeded_child(stage),
        within=130,
        now=lambda: runs.line(stage, RUN),
    )
    stage.type(f"kubectl get inferenceruns -n {runs.NAMESPACE}")
    stage.kept(f"{child} was created by the schedule")

    stage.look_for(
        "Suspended, it starts nothing until suspend is false again; deleted, it takes its Temporal schedule along."
    )
    stage.type(
        f"""kubectl patch inferencerun {RUN} -n {runs.NAMESPACE} --type=merge -p '{{"spec": {{"suspend": true}}}}'"""
    )
    runs.wait_for_reason(stage, RUN, "Suspended", within=30)


def _succeeded_child(stage: Stage) -> str | None:
    parent = (runs.get(stage, "inferencerun", RUN) or {})["metadata"]["uid"]
    children = f"kubectl get inferenceruns -n {runs.NAMESPACE} -l inferrun.dev/schedule-uid={parent} -o json"
    for run in json.loads(stage.read(children))["items"]:
        seen = run.get("status", {})
        if seen.get("phase") == "Failed":
            raise BrokenPromise(f"{run['metadata']['name']} failed: {seen.get('reason')}: {seen.get('message')}")
        if seen.get("phase") == "Succeeded":
            return str(run["metadata"]["name"])
    return None
