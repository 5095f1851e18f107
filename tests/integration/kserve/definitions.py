"""CustomResourceDefinitions for KServe's kinds, written for these tests: the names and versions
that KServe serves, with the shapes of the statuses that its controllers write. Specs are free-form,
because the product reads only some of their fields.
"""

from typing import Any

from inferrun.kserve import GROUP

Json = dict[str, Any]  # Any: a CRD is an arbitrary JSON tree

ANYTHING: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TEXT: Json = {"type": "string"}
NUMBER: Json = {"type": "integer"}


def _object(**properties: Json) -> Json:
    return {
        "type": "object",
        "properties": properties,
        "x-kubernetes-preserve-unknown-fields": True,
    }


def _list(items: Json) -> Json:
    return {"type": "array", "items": items}


def _choice(*values: str) -> Json:
    return {"type": "string", "enum": list(values)}


ADDRESS = _object(name=TEXT, url=TEXT, CACerts=TEXT)
CONDITIONS = _list(
    {
        **_object(type=TEXT, status=TEXT, reason=TEXT, message=TEXT, severity=TEXT),
        "required": ["type", "status"],
    }
)
STATES = _choice("", "Pending", "Standby", "Loading", "Loaded", "FailedToLoad")
MODEL_STATUS = _object(
    transitionStatus=_choice("", "UpToDate", "InProgress", "BlockedByFailedLoad", "InvalidSpec"),
    states=_object(activeModelState=STATES, targetModelState=STATES),
    copies=_object(failedCopies=NUMBER, totalCopies=NUMBER),
    lastFailureInfo=_object(reason=TEXT, message=TEXT, exitCode=NUMBER),
)
COMPONENT = _object(
    address=ADDRESS,
    url=TEXT,
    restUrl=TEXT,
    grpcUrl=TEXT,
    latestReadyRevision=TEXT,
    latestRolledoutRevision=TEXT,
)
INFERENCE_SERVICE_STATUS = _object(
    observedGeneration=NUMBER,
    conditions=CONDITIONS,
    address=ADDRESS,
    url=TEXT,
    components={"type": "object", "additionalProperties": COMPONENT},
    modelStatus=MODEL_STATUS,
    deploymentMode=TEXT,
    servingRuntimeName=TEXT,
    clusterServingRuntimeName=TEXT,
)
LLM_STATUS = _object(
    observedGeneration=NUMBER,
    conditions=CONDITIONS,
    address=ADDRESS,
    addresses=_list(
        _object(
            url=TEXT, name=TEXT, CACerts=TEXT, origin=ANYTHING, models=_list(_object(name=TEXT))
        )
    ),
    url=TEXT,
    workloads=ANYTHING,
)


def inference_service() -> Json:
    """The definition of InferenceService."""
    return _definition("InferenceService", {"v1beta1": INFERENCE_SERVICE_STATUS})


def llm_inference_service(*versions: str) -> Json:
    """The definition of LLMInferenceService; by default in the versions that KServe's main branch
    serves."""
    return _definition(
        "LLMInferenceService", dict.fromkeys(versions or ("v1alpha1", "v1alpha2"), LLM_STATUS)
    )


def cluster_serving_runtime() -> Json:
    """The definition of ClusterServingRuntime."""
    return _definition("ClusterServingRuntime", {"v1alpha1": ANYTHING}, scope="Cluster")


def _definition(kind: str, statuses: dict[str, Json], *, scope: str = "Namespaced") -> Json:
    plural = f"{kind.lower()}s"
    stored = max(statuses)
    versions = [
        {
            "name": version,
            "served": True,
            "storage": version == stored,
            "subresources": {"status": {}},
            "schema": {
                "openAPIV3Schema": {
                    "type": "object",
                    "properties": {"spec": ANYTHING, "status": status},
                }
            },
        }
        for version, status in statuses.items()
    ]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{GROUP}",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"},
        },
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
            },
            "scope": scope,
            "versions": versions,
        },
    }
