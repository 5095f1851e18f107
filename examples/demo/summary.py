"""The end of the demo: what was created and what to try next."""

from __future__ import annotations

import json

from examples.demo import runs
from examples.demo.terminal import WIDTH, Terminal

NEXT = """\
To use kubectl, helm and temporal in another terminal:
    set -a; . .devcluster/env; set +a; PATH=$INFERRUN_BIN:$PATH
Try next:
    kubectl get inferenceruns -A --watch                                  watch runs as they change
    kubectl describe inferencerun measurements -n kserve-test             attempts, Events, location of the output
    kubectl exec -n kserve-test deploy/files -- find /data/predictions    the predictions and their manifest
    kubectl explain inferenceconfig.spec                                  all fields
    sed 's/name: iris-january/generateName: iris-/' examples/iris-run.yaml | kubectl create -f -    start another run
When you are done:
    make demo-down        removes the demo and keeps the cluster
    make cluster-down     deletes the cluster, if `make demo` created it"""


def print_summary(terminal: Terminal) -> None:
    print(f"\n{'━' * WIDTH}\nSummary\n{'━' * WIDTH}")
    terminal.run("kubectl get inferenceruns -A")
    print("\nThe same runs in the Temporal UI:")
    for run in json.loads(terminal.read(f"kubectl get inferenceruns -n {runs.NAMESPACE} -o json"))[
        "items"
    ]:
        if url := run.get("status", {}).get("workflow", {}).get("url"):
            print(f"  {run['metadata']['name']:<45} {url}")
    print(f"\n{NEXT}\n")
