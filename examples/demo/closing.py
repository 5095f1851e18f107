"""After the last scene: what there is to look at, and where to go from here."""

from __future__ import annotations

import json

from examples.demo import runs
from examples.demo.stage import WIDTH, Stage

NEXT = """\
To type along in another terminal:
    set -a; . .devcluster/env; set +a; PATH=$INFERRUN_BIN:$PATH
Try next:
    kubectl get inferenceruns -A --watch                                  what happens, as it happens
    kubectl describe inferencerun measurements -n kserve-test             attempts, Events, where the output is
    kubectl exec -n kserve-test deploy/files -- find /data/predictions    the predictions and their manifest
    kubectl explain inferenceconfig.spec                                  every field, in words
    sed 's/name: iris-january/generateName: iris-/' examples/iris-run.yaml | kubectl create -f -    another run
Done:
    make demo-down        removes the demo, the cluster stays
    make cluster-down     removes the cluster, too"""


def bow(stage: Stage) -> None:
    print(f"\n{'━' * WIDTH}\nThe end, and what there is to see\n{'━' * WIDTH}")
    stage.type("kubectl get inferenceruns -A")
    print("\nThe same runs in the Temporal UI:")
    for run in json.loads(stage.read(f"kubectl get inferenceruns -n {runs.NAMESPACE} -o json"))["items"]:
        if url := run.get("status", {}).get("workflow", {}).get("url"):
            print(f"  {run['metadata']['name']:<45} {url}")
    print(f"\n{NEXT}\n")
