"""One object for each mode and version of KServe, with the Services that exist beside it.

`python -m tests.unit.inferrun.kserve.modes` writes the answers of the resolver to `answers.json`; review the difference.
"""

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from inferrun.kserve import Answer, Needs, Other, Wanted, resolve
from tests.unit.inferrun.kserve.stored import (
    Json,
    conditions,
    deployment,
    knative,
    llm,
    llm_with_router,
    merged,
    port,
    recorded,
    runtime,
    service,
    standard,
    with_model,
)

ANSWERS = Path(__file__).parent / "answers.json"
NOW = datetime(2026, 11, 21, 3, 0, 0, tzinfo=UTC)
NAMESPACE = "kserve-test"
SKLEARN = Other("clusterservingruntimes", "", "kserve-sklearnserver")
TORCHSERVE = Other("clusterservingruntimes", "", "kserve-torchserve")
VLLM = Other("clusterservingruntimes", "", "kserve-vllmserver")
DEPLOYMENT = Other("deployments", NAMESPACE, "sklearn-iris-predictor")
BASE = Other("llminferenceserviceconfigs", NAMESPACE, "llama")


@dataclass(frozen=True)
class Mode:
    """An object, what exists besides it, and what the config says."""

    item: Json
    services: dict[str, Json] = field(default_factory=dict)
    others: dict[Other, Json] = field(default_factory=dict)
    wanted: Wanted = field(default_factory=Wanted)

    def answer(self) -> dict[str, Any]:  # Any: JSON
        """The resolver's answer, and what it asked for on the way."""
        asked: dict[Other, Any] = {}
        while isinstance(found := self._ask(asked), Needs):
            asked[found.other] = self._read(found.other)
        names = [f"{other.plural} {other.name}{'' if asked[other] else ' (missing)'}" for other in asked]
        return {"answer": type(found).__name__, **_shown(found), **({"asked for": names} if names else {})}

    def _ask(self, asked: dict[Other, Any]) -> Answer:
        return resolve(self.item, self.wanted, asked, now=NOW)

    def _read(self, other: Other) -> Json | None:
        if other.plural == "deployments":
            return self.others.get(other, deployment())
        return self.services.get(other.name) if other.plural == "services" else self.others.get(other)


def _shown(answer: Answer) -> dict[str, Any]:  # Any: JSON
    """Its fields without the empty ones."""
    shown = {key: value for key, value in asdict(answer).items() if value}
    return {key: list(value) if isinstance(value, tuple) else value for key, value in shown.items()}


def _legacy_raw(**status: Any) -> Json:
    """As early versions of KServe wrote it: only host names of an ingress, and no `deploymentMode`."""
    item = standard(
        metadata={"annotations": {"serving.kserve.io/deploymentMode": "RawDeployment"}},
        status={
            "address": None,
            "url": "http://sklearn-iris-kserve-test.example.com",
            "deploymentMode": None,
            **status,
        },
    )
    predictor = {"address": None, "url": "http://sklearn-iris-predictor-default-kserve-test.example.com"}
    return merged(item, {"status": {"components": {"predictor": predictor}}})


def _with_adapters(item: Json, *names: str) -> Json:
    """With these LoRA adapters, which KServe lists at every address: by their qualified name alone where it routes by that."""
    adapters = [{"name": name, "uri": f"hf://org/{name}"} for name in names]
    item = merged(item, {"spec": {"model": {"lora": {"adapters": adapters}}}})
    for address in item["status"]["addresses"]:
        if (models := address.get("models")) is not None:
            models += [{"name": f"publishers/{NAMESPACE}/models/{name}"} for name in names]
            models += [{"name": name} for name in names if {"name": "tiny"} in models]
    return item


PREDICTOR = "sklearn-iris-predictor"
WORKLOAD = "tiny-llm-kserve-workload-svc"
HTTP = {PREDICTOR: service(port(80, target=8080))}
GRPC = {PREDICTOR: service(port(80, target=8081, name="h2c"))}
LISTENS = {WORKLOAD: service(port(8000))}
SECURE = {"addresses": [{"url": f"https://{WORKLOAD}.{NAMESPACE}.svc.cluster.local"}]}
ASLEEP = {
    "transitionStatus": "InProgress",
    "states": {"activeModelState": "", "targetModelState": "Pending"},
    "copies": {"totalCopies": 0},
}
MESH = {
    "deploymentMode": "ModelMesh",
    "address": None,
    "url": f"grpc://modelmesh-serving.{NAMESPACE}:8033",
    "components": {
        "predictor": {
            "url": f"grpc://modelmesh-serving.{NAMESPACE}:8033",
            "restUrl": f"http://modelmesh-serving.{NAMESPACE}:8008",
        }
    },
}
MISSING = ("False", "ConfigNotFound", "llminferenceserviceconfig big not found")
FAILED = {
    "transitionStatus": "BlockedByFailedLoad",
    "lastFailureInfo": {"reason": "ModelLoadFailed", "message": "gone"},
}


def v1alpha1(item: Json) -> Json:
    """The object in the older version."""
    return merged(item, {"apiVersion": "serving.kserve.io/v1alpha1"})


MODES: dict[str, Mode] = {
    "InferenceService, Serverless": Mode(knative()),
    "InferenceService, Knative": Mode(knative(status={"deploymentMode": "Knative"})),
    "InferenceService, Knative, scaled to zero": Mode(knative(status={"modelStatus": ASLEEP})),
    "InferenceService, Knative, gRPC": Mode(with_model(knative(), protocolVersion="grpc-v2")),
    "InferenceService, Knative, no address": Mode(knative(status={"address": None, "components": None})),
    "InferenceService, Standard": Mode(standard(), HTTP),
    "InferenceService, Standard, headless": Mode(
        standard(), {PREDICTOR: service(port(80, target=8080), headless=True)}
    ),
    "InferenceService, Standard, gRPC": Mode(with_model(standard(), protocolVersion="grpc-v2"), GRPC),
    "InferenceService, Standard, headless, gRPC": Mode(
        with_model(standard(), protocolVersion="grpc-v2"),
        {PREDICTOR: service(port(80, target=8081, name="h2c"), headless=True)},
    ),
    "InferenceService, Standard, protocols of its runtime": Mode(
        with_model(standard(status={"clusterServingRuntimeName": SKLEARN.name})), HTTP, {SKLEARN: runtime("v1", "v2")}
    ),
    "InferenceService, Standard, transformer": Mode(
        standard(spec={"transformer": {}}, status={"address": None, "components": None, "url": None}),
        {"sklearn-iris-transformer": service(port(80, target=8080))},
    ),
    "InferenceService, Standard, TLS": Mode(
        standard(
            status={"address": {"url": f"https://{PREDICTOR}.{NAMESPACE}.svc.cluster.local:8443", "CACerts": "PEM"}}
        )
    ),
    "InferenceService, Standard, Hugging Face": Mode(
        with_model(standard(), modelFormat={"name": "huggingface"}, protocolVersion="openai"), HTTP
    ),
    "InferenceService, Standard, vLLM": Mode(
        with_model(
            standard(status={"clusterServingRuntimeName": VLLM.name}),
            modelFormat={"name": "vLLM"},
            protocolVersion="v2",
        ),
        HTTP,
        {VLLM: runtime(server="vllmserver")},
    ),
    "InferenceService, Standard, TorchServe": Mode(
        with_model(
            standard(status={"clusterServingRuntimeName": TORCHSERVE.name}),
            modelFormat={"name": "pytorch"},
        ),
        HTTP,
        {TORCHSERVE: runtime("v1", "v2", "grpc-v2", server="torchserve")},
    ),
    "InferenceService, Standard, headless with a port, gRPC": Mode(
        with_model(
            standard(status={"address": {"url": f"http://{PREDICTOR}.{NAMESPACE}.svc.cluster.local:8080"}}),
            protocolVersion="grpc-v2",
        ),
        {PREDICTOR: service(port(80, target=9000, name="h2c"), headless=True)},
    ),
    "InferenceService, Standard, canary": Mode(
        standard(spec={"canary": [{"predictor": {"name": "blue"}, "trafficPercent": 20}]}), HTTP
    ),
    "InferenceService, Standard, being updated": Mode(
        standard(), HTTP, {DEPLOYMENT: deployment(old=1, new=1, reason="ReplicaSetUpdated")}
    ),
    "InferenceService, RawDeployment": Mode(standard(status={"deploymentMode": "RawDeployment"}), HTTP),
    "InferenceService, RawDeployment, address without a Service": Mode(
        standard(
            status={
                "deploymentMode": "RawDeployment",
                "address": {"url": "http://sklearn-iris.kserve-test.svc.cluster.local"},
            }
        ),
        HTTP,
    ),
    "InferenceService, legacy raw": Mode(_legacy_raw(), {f"{PREDICTOR}-default": service(port(80, target=8080))}),
    "InferenceService, legacy raw, gRPC": Mode(with_model(_legacy_raw(), protocolVersion="grpc-v2"), GRPC),
    "InferenceService, legacy raw, no Service": Mode(_legacy_raw()),
    "InferenceService, ModelMesh": Mode(standard(status=MESH)),
    "InferenceService, ModelMesh, gRPC": Mode(standard(status=MESH), wanted=Wanted(protocol="grpc-v2")),
    "InferenceService, stopped": Mode(recorded("isvc-standard-stopped")),
    "InferenceService, failed": Mode(
        standard(status={"modelStatus": FAILED, "conditions": conditions(Ready="False")}),
        others={DEPLOYMENT: deployment(reason="ProgressDeadlineExceeded")},
    ),
    "InferenceService, failed for now": Mode(
        standard(status={"modelStatus": FAILED, "conditions": conditions(Ready="False")}),
        others={DEPLOYMENT: deployment(reason="ReplicaSetUpdated")},
    ),
    "LLMInferenceService v1alpha2, no router": Mode(llm(), LISTENS),
    "LLMInferenceService v1alpha2, no router, TLS": Mode(llm(status=SECURE), LISTENS),
    "LLMInferenceService v1alpha2, no router, LoRA": Mode(
        _with_adapters(llm(), "legal"), LISTENS, wanted=Wanted(model_name="legal")
    ),
    "LLMInferenceService v1alpha2, no router, name of its base": Mode(
        llm(spec={"baseRefs": [{"name": BASE.name}], "model": {"name": None}}),
        LISTENS,
        {BASE: {"spec": {"model": {"name": "llama"}}}},
    ),
    "LLMInferenceService v1alpha2, no router, starting": Mode(recorded("llmisvc-no-router-starting")),
    "LLMInferenceService v1alpha2, no router, stopped": Mode(
        llm(metadata={"annotations": {"serving.kserve.io/stop": "true"}})
    ),
    "LLMInferenceService v1alpha2, no router, wrong configuration": Mode(
        llm(status={"conditions": conditions(PresetsCombined=MISSING, Ready=MISSING)})
    ),
    "LLMInferenceService v1alpha2, router": Mode(llm_with_router()),
    "LLMInferenceService v1alpha2, router, LoRA": Mode(
        _with_adapters(llm_with_router(), "legal"), wanted=Wanted(model_name="legal")
    ),
    "LLMInferenceService v1alpha2, router, url only": Mode(llm_with_router(status={"addresses": None})),
    "LLMInferenceService v1alpha1, no router": Mode(v1alpha1(llm()), LISTENS),
    "LLMInferenceService v1alpha1, no router, no addresses": Mode(v1alpha1(llm(status={"addresses": None})), LISTENS),
    "LLMInferenceService v1alpha1, no router, TLS": Mode(v1alpha1(llm(status=SECURE)), LISTENS),
    "LLMInferenceService v1alpha1, router": Mode(v1alpha1(llm_with_router())),
    "LLMInferenceService v1alpha1, router, LoRA": Mode(
        v1alpha1(_with_adapters(llm_with_router(), "legal")), wanted=Wanted(model_name="legal")
    ),
    "LLMInferenceService v1alpha1, router, url only": Mode(v1alpha1(llm_with_router(status={"addresses": None}))),
}


def answers() -> str:
    """The answers for all modes, as the file has them."""
    return json.dumps({name: mode.answer() for name, mode in MODES.items()}, indent=2) + "\n"


if __name__ == "__main__":
    ANSWERS.write_text(answers(), encoding="utf-8")
