"""The comparison of a stored Job with the one that we would have created."""

import json
from collections.abc import Callable

import pytest

from activities.rules import manifests
from activities.rules.job_comparison import difference
from activities.rules.snapshot import Claim, CompiledRun, Endpoint
from tests.unit.objects import RUN, Json, snapshot

Change = Callable[[Json], object]


def wanted() -> Json:
    given = snapshot(
        endpoints=(Endpoint(end="input", secret="data"),),
        claims=(Claim(end="output", name="rows"),),
        resources={"limits": {"cpu": "1000m", "memory": "1Gi"}},
        labels={"kueue.x-k8s.io/queue-name": "small"},
    )
    compiled = CompiledRun("inf-iris-5be07ada", '{"jobName":"x"}', given)
    return manifests.job(RUN, compiled, installation="i", launch=1, attempt=1, seconds_left=60)


def stored(*changes: Change) -> Json:
    """The Job with what the API server and a queue add."""
    job: Json = json.loads(json.dumps(wanted()))
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    spec |= {"completionMode": "NonIndexed", "suspend": True, "selector": {"matchLabels": {"u": "1"}}}
    spec["template"]["metadata"]["creationTimestamp"] = None
    spec["template"]["metadata"]["labels"] |= {"controller-uid": "u", "kueue.x-k8s.io/podset": "main"}
    pod |= {"dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "nodeSelector": {"pool": "gpu"}}
    pod["containers"][0] |= {"imagePullPolicy": "IfNotPresent", "terminationMessagePath": "/dev/termination-log"}
    pod["containers"][0]["resources"]["limits"]["cpu"] = "1"
    pod["containers"][0]["env"][0]["valueFrom"]["fieldRef"]["apiVersion"] = "v1"
    pod["volumes"][1]["configMap"]["defaultMode"] = 420
    for mount in pod["containers"][0]["volumeMounts"]:
        if not mount.get("readOnly"):
            mount.pop("readOnly", None)
    for change in changes:
        change(job)
    return job


def pod_of(job: Json) -> Json:
    spec: Json = job["spec"]["template"]["spec"]
    return spec


PLANTED: dict[str, Change] = {
    "image": lambda job: pod_of(job)["containers"][0].update(image="theirs"),
    "command": lambda job: pod_of(job)["containers"][0].update(command=["true"]),
    "account": lambda job: pod_of(job).update(serviceAccountName="powerful", serviceAccount="powerful"),
    "token": lambda job: pod_of(job).update(automountServiceAccountToken=True),
    "host network": lambda job: pod_of(job).update(hostNetwork=True),
    "host path": lambda job: pod_of(job)["volumes"].append({"name": "h", "hostPath": {"path": "/"}}),
    "another volume": lambda job: pod_of(job)["volumes"][1].update(configMap={"name": "theirs"}),
    "sidecar": lambda job: pod_of(job)["containers"].append({"name": "s", "image": "theirs"}),
    "init container": lambda job: pod_of(job).update(initContainers=[{"name": "s", "image": "theirs"}]),
    "privileges": lambda job: pod_of(job)["containers"][0]["securityContext"].update(privileged=True),
    "user": lambda job: pod_of(job)["securityContext"].update(runAsUser=0),
    "deadline": lambda job: pod_of(job).update(activeDeadlineSeconds=999_999),
    "no deadline": lambda job: pod_of(job).pop("activeDeadlineSeconds"),
    "seconds left": lambda job: pod_of(job)["containers"][0]["env"][-1].update(value="9"),
    "resources": lambda job: pod_of(job)["containers"][0]["resources"]["limits"].update(cpu="64"),
    "no resources": lambda job: pod_of(job)["containers"][0].pop("resources"),
    "priority": lambda job: pod_of(job).update(priorityClassName="system-node-critical"),
    "backoff": lambda job: job["spec"].update(backoffLimit=100),
    "parallelism": lambda job: job["spec"].update(parallelism=50),
    "managed by another": lambda job: job["spec"].update(managedBy="theirs.example/x"),
    "own deadline": lambda job: job["spec"].update(activeDeadlineSeconds=1),
    "success policy": lambda job: job["spec"].update(successPolicy={"rules": []}),
    "failure policy": lambda job: job["spec"].update(podFailurePolicy={"rules": []}),
    "manual selector": lambda job: job["spec"].update(manualSelector=True),
    "priority label": lambda job: job["metadata"]["labels"].update({"kueue.x-k8s.io/priority-class": "high"}),
    "another queue": lambda job: job["metadata"]["labels"].update({"kueue.x-k8s.io/queue-name": "big"}),
    "attempt label": lambda job: job["metadata"]["labels"].update({"inferrun.dev/attempt": "3"}),
    "no template": lambda job: job["spec"].update(template=None),
    "nonsense": lambda job: job.update(spec=["x"]),
}


def test_what_the_api_server_and_queues_add_is_no_difference() -> None:
    assert difference(wanted(), stored()) == ""


def test_a_job_that_was_started_is_no_other_job() -> None:
    empty = wanted()
    empty["spec"]["parallelism"] = 0
    for parallelism, found in ((0, ""), (1, ""), (2, "spec.parallelism")):
        job = stored(lambda job, parallelism=parallelism: job["spec"].update(parallelism=parallelism))  # type: ignore[misc]
        assert difference(empty, job) == found


def test_a_job_that_was_given_its_queue_is_no_other_job_once_it_was_started() -> None:
    for parallelism, queue, is_ours in ((1, "small", True), (1, "big", False), (0, "small", False), (0, "big", False)):

        def change(job: Json, parallelism: int = parallelism, queue: str = queue) -> None:
            job["spec"].update(parallelism=parallelism)
            job["metadata"]["labels"].update({"kueue.x-k8s.io/queue-name": queue})

        assert (difference(wanted(), stored(change)) == "") is is_ours


def test_the_label_of_a_recorded_end_is_no_difference() -> None:
    assert (
        difference(wanted(), stored(lambda job: job["metadata"]["labels"].update({"inferrun.dev/ended": "true"}))) == ""
    )


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_job_differs(planted: str) -> None:
    assert difference(wanted(), stored(PLANTED[planted]))


def test_a_job_of_several_shards_is_started_with_all_of_its_pods() -> None:
    sharded = wanted()
    sharded["spec"] |= {"completions": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 2}
    for parallelism, found in ((0, ""), (3, ""), (1, "spec.parallelism")):
        job = json.loads(json.dumps(sharded))
        job["spec"]["parallelism"] = parallelism
        assert difference(sharded, job) == found
