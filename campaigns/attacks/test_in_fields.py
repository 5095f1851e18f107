"""Attacks by what a user of one namespace writes into configs, runs, and the objects and folders
that they refer to."""

import json
import re
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from campaigns.attacks.test_as_tenant import SECONDS, ours, rejection
from campaigns.attacks.test_planted_objects import waiting_run
from campaigns.attacks.victim import Victim
from inferrun.names import job_base_name
from tests.e2e.file_world import in_pod, prepare_rows
from tests.e2e.kserve_world import kserve, play
from tests.e2e.stage import Object, Space, Stage, config, run, until
from tests.unit.inferrun.kserve.stored import merged, recorded, standard

__all__ = ["kserve"]

NOT_REACHED = re.compile(r"which runs must not reach")


@pytest.mark.usefixtures("kserve")
@pytest.mark.parametrize("recording", ["isvc-standard-ready", ""], ids=["exists", "does not exist"])
def test_a_model_of_another_namespace_is_refused_whether_or_not_it_exists(
    tenant: Space, victim: Victim, recording: str
) -> None:
    """A model of another namespace is rejected, with the same message whether or not it exists."""
    name = f"model-{uuid.uuid4().hex[:6]}"
    if recording:
        play(victim.space, merged(recorded(recording), {"metadata": {"name": name}}))
    tenant.apply(
        ours("borrow", kserve={"serviceRef": {"name": name, "namespace": victim.space.name}})
    )
    tenant.apply(run("borrow", "borrow"))
    status = tenant.wait_for(
        "borrow", phase="Pending", reason="ModelNamespaceNotAllowed", seconds=SECONDS
    )
    assert name not in status["message"]
    assert not tenant.items("jobs")


PASSWORD = "c4nary"


@pytest.mark.usefixtures("kserve")
@pytest.mark.parametrize(
    "url",
    [
        "https://kubernetes.default.svc",
        f"http://user:{PASSWORD}@127.0.0.1:8080",
        "file:///etc/passwd",
        "http://[::ffff:127.0.0.1]:8080",
        "http://model.invalid\r\nHost: other",
        "http://" + "x" * 5000,
        "http://[",
    ],
    ids=["api server", "userinfo", "file", "mapped", "lines", "long", "malformed"],
)
def test_a_forged_address_of_a_model_is_reported_and_not_called(
    tenant: Space, stage: Stage, url: str
) -> None:
    """A forged model address is reported and not called."""
    forged = {
        "address": {"url": url},
        "url": url,
        "components": {"predictor": {"url": url, "address": {"url": url}}},
    }
    play(
        Space(stage, tenant.name),
        merged(standard(), {"metadata": {"name": "forged"}, "status": forged}),
    )
    tenant.apply(ours("forged", kserve={"serviceRef": {"name": "forged"}}, backoffLimit=0))
    tenant.apply(run("forged", "forged", pendingTimeoutSeconds=15))
    status = tenant.wait_for("forged", phase="Failed", seconds=120)
    assert status["message"].isprintable()
    assert len(status["message"]) <= 4096
    assert PASSWORD not in json.dumps(status)
    assert "HTTP" not in status["message"], "no server has answered"


@pytest.mark.usefixtures("kserve")
@pytest.mark.parametrize("kind", ["annotation", "conditions", "deep"])
def test_a_huge_object_of_kserve_is_reported(tenant: Space, stage: Stage, kind: str) -> None:
    """A very large KServe object is reported."""
    deep: object = "x"
    for _ in range(300):
        deep = {"deep": deep}
    choices: dict[str, dict[str, Any]] = {  # Any: parts of an object
        "annotation": {"metadata": {"annotations": {"padding": "x" * 100_000}}},
        "conditions": {
            "status": {
                "conditions": [{"type": "Ready", "status": "False", "message": "y" * 90_000}]
            }
        },
        "deep": {"spec": {"deep": deep}},
    }
    play(
        Space(stage, tenant.name),
        merged(merged(standard(), {"metadata": {"name": "huge"}}), choices[kind]),
    )
    tenant.apply(ours("huge", kserve={"serviceRef": {"name": "huge"}}, backoffLimit=0))
    tenant.apply(run("huge", "huge", pendingTimeoutSeconds=15))
    until(
        lambda: tenant.status("huge").get("message"),
        seconds=SECONDS,
        what="the run says what it waits for",
    )
    status = tenant.wait_for("huge", phase="Failed", seconds=120)
    assert len(status["message"]) <= 4096


FORBIDDEN: dict[str, Object] = {
    "tokenAudience": {
        "kserve": {
            "modelUrl": "http://model.invalid",
            "tokenAudience": "https://kubernetes.default.svc",
        }
    },
    "warmUpSeconds": {"kserve": {"modelUrl": "http://model.invalid", "warmUpSeconds": -1}},
    "serviceRef": {"kserve": {"serviceRef": {"name": "x", "kind": "Secret"}}},
    "modelUrl": {"kserve": {"modelUrl": "http://model.invalid", "serviceRef": {"name": "x"}}},
    "shards": {"shards": 100_000},
    "concurrency": {"requests": {"concurrency": 1_000_000}},
    "maxBatchRecords": {"requests": {"maxBatchRecords": 0}},
    "timeoutSeconds": {"requests": {"timeoutSeconds": 10**12}},
    "spool": {"limits": {"spool": "9Pi"}},
    "joinSource": {"joinSource": "../../etc"},
    "passThroughColumns": {"passThroughColumns": ["c"] * 300},
    "errorThreshold": {"errorThreshold": "1000%"},
    "canaryRecords": {"canaryRecords": -1},
}


@pytest.mark.parametrize("field", FORBIDDEN)
def test_a_value_that_is_not_allowed_is_rejected_with_its_field(tenant: Space, field: str) -> None:
    """A forbidden value in a config is rejected by field."""
    assert field in rejection(tenant, ours("wrong", **FORBIDDEN[field]))


@pytest.mark.parametrize(
    ("field", "spec"),
    [
        ("shards", {"shards": 0}),
        ("retryOf", {"retryOf": "../other"}),
        ("retryOf", {"retryOf": "x" * 300}),
        ("dryRun", {"dryRun": "yes"}),
        ("dryRun", {"dryRun": True, "schedule": "0 0 * * *"}),
        ("retryOf", {"retryOf": "earlier", "schedule": "0 0 * * *"}),
        ("pendingTimeoutSeconds", {"pendingTimeoutSeconds": -5}),
        ("parameters", {"parameters": {"job_uid": "forged"}}),
    ],
    ids=str,
)
def test_a_run_with_a_value_that_is_not_allowed_is_rejected_with_its_field(
    tenant: Space, field: str, spec: Object
) -> None:
    """A forbidden value in a run is rejected by field."""
    body = run("wrong", "actor")
    body["spec"].update(spec)
    assert field in rejection(tenant, body)


@pytest.mark.parametrize("spec", [{"dryRun": True}, {"shards": 3}], ids=str)
def test_a_custom_image_is_not_executed_as_what_only_our_runner_can_do(
    tenant: Space, spec: Object
) -> None:
    """A custom image is not used for features that only the built-in runner has."""
    tenant.apply(run("custom", "actor", pendingTimeoutSeconds=10, **spec))
    [field] = spec
    status = until(
        lambda: found if field in (found := tenant.status("custom")).get("message", "") else None,
        seconds=SECONDS,
        what=f"the run says what is wrong with {field}",
        now=lambda: tenant.status("custom"),
    )
    assert status["phase"] in ("Pending", "Failed")
    assert not tenant.items("pods")


def test_a_run_of_another_namespace_cannot_be_retried(tenant: Space, victim: Victim) -> None:
    """A run of another namespace cannot be retried."""
    theirs = f"theirs-{uuid.uuid4().hex[:6]}"
    victim.space.apply(run(theirs, "actor"))
    victim.space.wait_for(theirs, phase="Succeeded", seconds=60)
    tenant.apply(ours("again"))
    messages = set()
    for name, retried in (("known", theirs), ("unknown", "does-not-exist")):
        tenant.apply(run(name, "again", retryOf=retried, pendingTimeoutSeconds=10))
        messages.add(_what_is_wrong_with_retry(tenant, name).replace(retried, "NAME"))
        assert not tenant.items("pods")
    assert len(messages) == 1, messages


def _what_is_wrong_with_retry(tenant: Space, name: str) -> str:
    def look() -> str | None:
        message = str(tenant.status(name).get("message", ""))
        return message if "retryOf" in message else None

    return until(
        look,
        seconds=60,
        what=f"{name} says that there is no run to retry",
        now=lambda: tenant.status(name),
    )


STORES: dict[str, Callable[[str], Object]] = {
    "s3": lambda address: {
        "s3": {"bucket": "records", "path": "x", "endpoint": f"http://{address}"}
    },
    "http": lambda address: {"http": {"url": f"http://{address}/x.jsonl", "format": "jsonl"}},
    "sql": lambda _address: {"sql": {"credentialsRef": {"name": "database"}, "query": "select 1"}},
}


@pytest.mark.parametrize(
    ("store", "server"),
    [
        ("s3", "api server"),
        ("s3", "loopback"),
        ("http", "kubelet"),
        ("http", "temporal"),
        ("sql", "temporal"),
    ],
)
def test_no_store_calls_the_control_plane(
    tenant: Space, stage: Stage, store: str, server: str
) -> None:
    """No store calls the control plane.

    Only addresses of this machine: link-local ones are covered by tests that send nothing.
    """
    node = stage.temporal_address.rpartition(":")[0]
    api = stage.kubectl(
        "config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"
    ).split("//")[1]
    address = {
        "api server": api,
        "loopback": "127.0.0.1:8080",
        "kubelet": f"{node}:10250",
        "temporal": stage.temporal_address,
    }[server]
    host, _, port = address.rpartition(":")
    keys = {"host": host, "port": port, "dbname": "d", "username": "u", "password": PASSWORD}
    tenant.kubectl(
        "create",
        "secret",
        "generic",
        "database",
        *(f"--from-literal={k}={v}" for k, v in keys.items()),
    )
    tenant.kubectl(
        "create", "secret", "generic", "handler", "--from-literal=server-url=http://data.invalid"
    )
    call = {"path": "/x", "verb": "POST", "endpointRef": {"name": "handler"}}
    storage = {"input": STORES[store](address), "output": {"krateo": {"api": call}}}
    tenant.apply(ours("inside", storage=storage, backoffLimit=0), run("inside", "inside"))
    status = tenant.wait_for("inside", phase="Failed", seconds=120)
    assert NOT_REACHED.search(status["message"]), status["message"]
    assert PASSWORD not in json.dumps(status)


@pytest.mark.parametrize("claim", ["other/claim", "../claim", "", "x" * 300])
def test_a_claim_of_another_namespace_cannot_be_named(tenant: Space, claim: str) -> None:
    """A volume claim of another namespace cannot be named."""
    storage = {
        "input": {"file": {"claimName": claim, "path": "in.jsonl"}},
        "output": {"file": {"claimName": "c", "path": "out"}},
    }
    assert "input.file.claimName" in rejection(tenant, ours("stolen", storage=storage))


def test_the_value_of_a_header_that_ends_its_line_is_reported_and_not_shown(tenant: Space) -> None:
    """A header value with a line break is reported without showing the value."""
    tenant.kubectl(
        "create", "secret", "generic", "handler", "--from-literal=server-url=http://data.invalid"
    )
    tenant.kubectl(
        "create", "secret", "generic", "header", f"--from-literal=value={PASSWORD}\r\nX-Injected: 1"
    )
    hidden = [{"name": "X-Key", "secretKeyRef": {"name": "header", "key": "value"}}]
    call = {"path": "/x", "verb": "POST", "endpointRef": {"name": "handler"}, "headersFrom": hidden}
    storage = {"input": {"krateo": {"api": call}}, "output": {"krateo": {"api": call}}}
    tenant.apply(ours("injected", storage=storage, backoffLimit=0), run("injected", "injected"))
    status = tenant.wait_for("injected", phase="Failed", seconds=90)
    assert "X-Key" in status["message"] or "headersFrom" in status["message"], status["message"]
    assert PASSWORD not in json.dumps(status)
    assert "X-Injected" not in status["message"]


GARBAGE = {
    "manifest": "printf '%s' '{}' > {folder}/manifest.json",
    "deep": "python3 -c 'print(\"[\" * 60000)' > {folder}/manifest.json",
    "commit": "mkdir -p {folder}/commits && echo null > {folder}/commits/000000.json",
    "members": "mkdir -p {folder}/members {folder}/claims && echo '[[' | tee {folder}/members/x {folder}/claims/000000.json",
    "link": "rmdir {folder} && ln -s /tmp {folder}",
}


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_planted_output_neither_makes_a_run_succeed_nor_lets_it_hang(
    tenant: Space, stage: Stage, garbage: str
) -> None:
    """A planted output neither makes a run succeed nor makes it hang."""
    operator = Space(stage, tenant.name)
    prepare_rows(operator, backoffLimit=0, shards=2)
    in_pod(operator, "python3 -c 'for i in range(50): print([i, 1])' > /data/in.jsonl")
    ref = waiting_run(tenant, "planted", timeoutSeconds=60)
    folder = f"/data/out/{job_base_name(ref.name, ref.uid)}"
    in_pod(operator, f"mkdir -p {folder} && {GARBAGE[garbage].replace('{folder}', folder)}")
    found = tenant.get("inferenceconfig", "ours")
    assert found is not None
    tenant.apply({**config("later"), "spec": found["spec"]})
    status = until(
        lambda: (
            found
            if (found := tenant.status("planted")).get("phase") in ("Succeeded", "Failed")
            else None
        ),
        seconds=180,
        what="the run ends",
        now=lambda: tenant.status("planted"),
    )
    if status["phase"] == "Succeeded":
        assert status["records"] == {"total": 50, "completed": 50, "failed": 0}
        predictions = in_pod(operator, f"cat {folder}/predictions/part-*").splitlines()
        assert len(predictions) == 50
    else:
        assert status["reason"] == "OutputFailed"
        assert status["message"].isprintable()
