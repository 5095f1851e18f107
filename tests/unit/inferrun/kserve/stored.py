"""Objects of KServe for tests: as its controllers wrote them, and variants of other modes and
versions.

The variants follow KServe's status types and the rules by which its controllers fill them in each
mode.
"""

import copy
import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]  # Any: Kubernetes objects are open JSON

OBJECTS = Path(__file__).parent / "objects"
HOST = "sklearn-iris-predictor.kserve-test.svc.cluster.local"


def recorded(name: str) -> Json:
    found: Json = json.loads((OBJECTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def merged(base: Json, changes: Json) -> Json:
    """The object with changes; None removes a member."""
    result = copy.deepcopy(base)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def conditions(**statuses: Any) -> list[Json]:  # Any: a status, or (status, reason, message)
    found = []
    for kind, given in statuses.items():
        status, reason, message = given if isinstance(given, tuple) else (given, "", "")
        one = {"type": kind, "status": status, "lastTransitionTime": "2026-11-21T02:34:03Z"}
        found.append(one | ({"reason": reason, "message": message} if reason else {}))
    return found


def standard(**changes: Any) -> Json:
    """A ready InferenceService in Standard mode."""
    return merged(recorded("isvc-standard-ready"), changes)


def with_model(item: Json, **model: Any) -> Json:
    """The InferenceService with a model of a format instead of a custom container."""
    predictor = {"containers": None, "model": {"modelFormat": {"name": "sklearn"}, **model}}
    return merged(item, {"spec": {"predictor": predictor}})


def knative(**changes: Any) -> Json:
    """A ready InferenceService in Knative mode, which KServe before 0.16 calls Serverless."""
    revision = "sklearn-iris-predictor-00003"
    item = merged(
        recorded("isvc-standard-ready"),
        {
            "metadata": {"annotations": {"serving.kserve.io/deploymentMode": "Serverless"}},
            "status": {
                "deploymentMode": "Serverless",
                "address": {"url": "http://sklearn-iris.kserve-test.svc.cluster.local"},
                "url": "http://sklearn-iris.kserve-test.example.com",
                "components": {
                    "predictor": {
                        "address": {
                            "url": "http://sklearn-iris-predictor.kserve-test.svc.cluster.local"
                        },
                        "url": "http://sklearn-iris-predictor.kserve-test.example.com",
                        "latestCreatedRevision": revision,
                        "latestReadyRevision": revision,
                        "latestRolledoutRevision": revision,
                    }
                },
                "conditions": conditions(
                    IngressReady="True", PredictorReady="True", Ready="True", RoutesReady="True"
                ),
            },
        },
    )
    return merged(item, changes)


def llm(**changes: Any) -> Json:
    """A ready LLMInferenceService without a router."""
    return merged(recorded("llmisvc-no-router-ready"), changes)


def llm_with_router(**changes: Any) -> Json:
    """A ready LLMInferenceService behind a gateway, inside and outside of the cluster."""
    gateway = {
        "group": "gateway.networking.k8s.io",
        "kind": "Gateway",
        "name": "kserve-ingress",
        "namespace": "kserve",
    }
    names = [{"name": "publishers/kserve-test/models/tiny"}, {"name": "tiny"}]
    addresses = [
        {
            "name": "gateway-external",
            "url": "https://models.example.com/kserve-test/tiny-llm",
            "origin": gateway,
            "models": names,
        },
        {
            "name": "gateway-internal-model-routing",
            "url": "http://gw.kserve.svc.cluster.local:8080/",
            "origin": gateway,
            "models": names[:1],
        },
        {
            "name": "gateway-internal",
            "url": "http://gw.kserve.svc.cluster.local:8080/kserve-test/tiny-llm",
            "origin": gateway,
            "models": names,
        },
    ]
    item = merged(
        recorded("llmisvc-no-router-ready"),
        {
            "spec": {"router": {"route": {}, "gateway": {}, "scheduler": {}}},
            "status": {
                "addresses": addresses,
                "url": "https://models.example.com/kserve-test/tiny-llm",
            },
        },
    )
    return merged(item, changes)


def service(*ports: Json, headless: bool = False) -> Json:
    spec = {"clusterIP": "None" if headless else "10.96.0.7", "ports": list(ports)}
    return {"kind": "Service", "metadata": {"name": "any"}, "spec": spec}


def port(number: int, *, target: int | str | None = None, name: str = "http") -> Json:
    return {
        "name": name,
        "port": number,
        "protocol": "TCP",
        "targetPort": target if target is not None else number,
    }


def runtime(*versions: str, server: str = "") -> Json:
    """A serving runtime that speaks these protocols, of this type of server."""
    annotations = {"serving.kserve.io/server-type": server} if server else {}
    return {
        "kind": "ClusterServingRuntime",
        "metadata": {"name": "any", "annotations": annotations},
        "spec": {"protocolVersions": list(versions)},
    }


def deployment(
    *, old: int = 0, new: int = 1, reason: str = "NewReplicaSetAvailable", observed: int = 2
) -> Json:
    """A Deployment of generation 2 with Pods of its previous and its current template."""
    conditions = [
        {"type": "Progressing", "status": "True", "reason": reason, "message": "as it says"}
    ]
    return {
        "kind": "Deployment",
        "metadata": {"name": "sklearn-iris-predictor", "namespace": "kserve-test", "generation": 2},
        "spec": {"replicas": 1},
        "status": {
            "observedGeneration": observed,
            "replicas": old + new,
            "updatedReplicas": new,
            "conditions": conditions,
        },
    }


def edited(item: Json, time: str) -> Json:
    """The object after a spec edit at that time of the API server's clock."""
    return merged(
        item,
        {
            "metadata": {
                "managedFields": [{"manager": "kubectl", "time": time, "fieldsV1": {"f:spec": {}}}]
            }
        },
    )
