"""Scene 2: a Pod and a worker die in the middle of a run, and nothing is lost or doubled."""

from __future__ import annotations

import json
from dataclasses import dataclass

from examples.demo import model, runs
from examples.demo.stage import BrokenPromise, Stage

TITLE = "Scene 2 of 5 · kill -9, in the middle, twice"
STORY = """
20,000 measurements in a file on a claim, and a model that takes its time. In the middle, the worker that follows the run and
the Pod that computes are killed. The run goes on in a new Pod behind the last chunk that was committed.
"""
RUN = "measurements"
RECORDS = 20_000
SYSTEM = "inferrun-system"


def play(stage: Stage) -> None:
    _lay_out(stage)
    stage.type("kubectl apply -f examples/file-run.yaml")
    stage.wait("a fifth is predicted", lambda: _a_fifth(stage), within=90, now=lambda: runs.line(stage, RUN))

    stage.look_for(
        "The worker first, so that it cannot see what happens next; then the Pod. Both processes, not politely:"
    )
    worker = _pod(stage, namespace=SYSTEM, labels="app.kubernetes.io/component=worker")
    _kill(stage, worker)
    _kill(stage, _pod(stage, namespace=runs.NAMESPACE, labels=_labels(stage)))
    stage.promise(runs.status(stage, RUN).get("phase") != "Succeeded", "the run was not over yet")
    stage.type(f"kubectl get pods -n {runs.NAMESPACE} -l {_labels(stage)}")

    done = runs.wait_for_success(stage, RUN, within=300)
    stage.type(f"kubectl get inferencerun {RUN} -n {runs.NAMESPACE} -o wide")
    stage.promise(done.get("attempt", 0) >= 2, f"attempt {done.get('attempt')}: the killed one was told and counted")
    stage.promise(
        done["records"] == {"total": RECORDS, "completed": RECORDS, "failed": 0},
        f"status counts {RECORDS} of {RECORDS}",
    )
    location = done["output"]["location"]
    folder = location.partition("/")[2]
    stage.type(
        f"kubectl exec -n {runs.NAMESPACE} deploy/files -- sh -c 'cd /data/{folder} && ls && head -n 2 predictions/part-000000-*'"
    )
    _check_results(stage, location)


def _lay_out(stage: Stage) -> None:
    stage.type(
        f"kubectl exec -n {runs.NAMESPACE} deploy/files -- sh -c"
        f" 'rm -rf /data/predictions && python /models/measure.py {RECORDS} > /data/measurements.jsonl"
        " && head -n 2 /data/measurements.jsonl'"
    )


def _a_fifth(stage: Stage) -> bool | None:
    seen = runs.status(stage, RUN)
    if seen.get("phase") in ("Succeeded", "Failed"):
        raise BrokenPromise(f"the run ended before it could be disturbed: {runs.line(stage, RUN)}")
    return _predicted(stage) >= RECORDS / 5 or None


def _predicted(stage: Stage) -> int:
    """From the Pod's log, which is a few seconds ahead of the status."""
    if not runs.status(stage, RUN).get("jobStatus"):
        return 0
    command = f"kubectl logs -n {runs.NAMESPACE} -l {_labels(stage)} --tail=20"
    said = stage.read(command) if stage.works(command) else ""
    told = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return max((line["records"]["completed"] for line in told if line.get("event") == "progress"), default=0)


def _labels(stage: Stage) -> str:
    """What the run's Pods are found by; a name may be too long for a label, a UID is not."""
    return f"inferrun.dev/run-uid={(runs.get(stage, 'inferencerun', RUN) or {})['metadata']['uid']}"


@dataclass(frozen=True)
class Pod:
    """A Pod and the container that runs in it."""

    name: str
    namespace: str
    container: str


def _pod(stage: Stage, *, namespace: str, labels: str) -> Pod:
    """The one running Pod with these labels."""
    text = stage.read(f"kubectl get pods -n {namespace} -l {labels} --field-selector=status.phase=Running -o json")
    found = json.loads(text)["items"]
    if not found:
        raise BrokenPromise(f"no running Pod in {namespace} has the labels {labels}")
    identity = found[0]["status"]["containerStatuses"][0]["containerID"]
    return Pod(name=found[0]["metadata"]["name"], namespace=namespace, container=identity.partition("://")[2])


def _kill(stage: Stage, pod: Pod) -> None:
    """By the container's control group; where its processes are on another machine, Kubernetes is asked to do it."""
    processes = f"grep -ls {pod.container} /proc/[0-9]*/cgroup | cut -d/ -f3"
    if stage.read(f"{processes} || true").strip():
        stage.type(f"kill -9 $({processes})  # {pod.name}")
    else:
        stage.type(f"kubectl delete pod {pod.name} -n {pod.namespace} --grace-period=0 --force")


def _check_results(stage: Stage, location: str) -> None:
    """`location` is as in status: the claim's name, then the run's folder on it."""
    folder = location.partition("/")[2]
    given = _lines(stage, "/data/measurements.jsonl")
    results = _lines(stage, f"/data/{folder}/predictions/*")
    places = [result["index"] for result in results]
    stage.promise(
        places == list(range(RECORDS)),
        f"the parts hold every index from 0 to {RECORDS - 1} once, in order",
        but=f"{len(places)} lines, {len(set(places))} different",
    )
    stage.promise(
        [result["custom_id"] for result in results] == [record["custom_id"] for record in given],
        "each prediction stands with its flower's own id",
    )
    expected = model.predictions(stage, "iris-forest", [record["inputs"] for record in given])
    same = sum(result["prediction"] == klass for result, klass in zip(results, expected, strict=True))
    stage.promise(same == RECORDS, f"{same} of {RECORDS} equal what scikit-learn itself says")


def _lines(stage: Stage, files: str) -> list[runs.Object]:
    text = stage.read(f'kubectl exec -n {runs.NAMESPACE} deploy/files -- sh -c "cat {files}"')
    return [json.loads(line) for line in text.splitlines()]
