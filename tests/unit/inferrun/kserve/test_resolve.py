"""From the objects of KServe, in each mode and version, to the address of the model or the reason
why there is none."""

from datetime import UTC, datetime
from typing import Any

import pytest

from inferrun.kserve import (
    UNREADABLE,
    Answer,
    ModelAddress,
    Needs,
    Never,
    NotYet,
    Other,
    Wanted,
    resolve,
)
from tests.unit.inferrun.kserve.stored import (
    HOST,
    Json,
    conditions,
    deployment,
    edited,
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

NOW = datetime(2026, 11, 21, 3, 0, 0, tzinfo=UTC)
PREDICTOR = Other("services", "kserve-test", "sklearn-iris-predictor")
WORKLOAD = Other("services", "kserve-test", "tiny-llm-kserve-workload-svc")
DEPLOYMENT = Other("deployments", "kserve-test", "sklearn-iris-predictor")
LLM_DEPLOYMENT = Other("deployments", "kserve-test", "tiny-llm-kserve")
BESIDE = {
    PREDICTOR: service(port(80, target=8080)),
    WORKLOAD: service(port(8000)),
    DEPLOYMENT: deployment(),
    LLM_DEPLOYMENT: deployment(),
}


def ask(item: Json, others: dict[Other, Any] | None = None, **wanted: Any) -> Answer:
    return resolve(item, Wanted(**wanted), {**BESIDE, **(others or {})}, now=NOW)


def found(item: Json, others: dict[Other, Any] | None = None, **wanted: Any) -> ModelAddress:
    answer = ask(item, others, **wanted)
    assert isinstance(answer, ModelAddress), answer
    return answer


def waits(item: Json, others: dict[Other, Any] | None = None, **wanted: Any) -> NotYet:
    answer = ask(item, others, **wanted)
    assert isinstance(answer, NotYet), answer
    return answer


def refusal(item: Json, others: dict[Other, Any] | None = None, **wanted: Any) -> str:
    answer = ask(item, others, **wanted)
    assert isinstance(answer, Never), answer
    return answer.message


# As KServe wrote them


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "isvc-standard-crashing",
            (
                "InferenceService kserve-test/broken is not ready: PredictorReady is False (MinimumReplicasUnavailable: Deployment "
                "does not have minimum availability.); the run starts when it is; to see its Pods: kubectl -n kserve-test get pods "
                "-l serving.kserve.io/inferenceservice=broken"
            ),
        ),
        (
            "isvc-standard-stopped",
            (
                "InferenceService kserve-test/sklearn-iris is stopped; remove its annotation serving.kserve.io/stop and the run "
                "starts automatically"
            ),
        ),
        (
            "llmisvc-no-router-starting",
            (
                "LLMInferenceService kserve-test/tiny-llm is not ready: WorkloadsReady is False (MinimumReplicasUnavailable: "
                "Deployment does not have minimum availability.); the run starts when it is; to see its Pods: kubectl -n "
                "kserve-test get pods -l app.kubernetes.io/name=tiny-llm"
            ),
        ),
    ],
)
def test_a_recorded_object_that_is_not_ready_is_waited_for_with_what_it_says(
    name: str, message: str
) -> None:
    assert ask(recorded(name)) == NotYet(message)


def test_a_recorded_inference_service_in_standard_mode_has_the_address_of_its_predictor() -> None:
    assert found(recorded("isvc-standard-ready")) == ModelAddress(
        url=f"http://{HOST}/v2/models/sklearn-iris/infer",
        model_name="sklearn-iris",
        protocol="v2",
        generation=1,
    )


def test_a_recorded_llm_service_without_a_router_has_the_port_of_its_service() -> None:
    assert ask(recorded("llmisvc-no-router-ready"), {}) == ModelAddress(
        url="http://tiny-llm-kserve-workload-svc.kserve-test.svc.cluster.local:8000/v1",
        model_name="tiny",
        protocol="openai",
        generation=3,
    )


def test_services_are_asked_for_before_an_address_is_given() -> None:
    isvc, llmisvc = recorded("isvc-standard-ready"), recorded("llmisvc-no-router-ready")
    for item, one, other in ((isvc, DEPLOYMENT, PREDICTOR), (llmisvc, LLM_DEPLOYMENT, WORKLOAD)):
        assert resolve(item, Wanted(), {}, now=NOW) == Needs(one)
        assert resolve(item, Wanted(), {one: None}, now=NOW) == Needs(other)


# Addresses of an InferenceService

HTTPS = {"url": f"https://{HOST}:8443"}
TRANSFORMER = "http://sklearn-iris-transformer.kserve-test.svc.cluster.local"
INGRESS = "http://sklearn-iris-predictor-default-kserve-test.example.com"
LEGACY = Other("services", "kserve-test", "sklearn-iris")
OLDER = Other("services", "kserve-test", "sklearn-iris-predictor-default")
BLUE = Other("services", "kserve-test", "sklearn-iris-blue-predictor")
NOWHERE: Json = {"address": None, "components": None, "url": None}
EARLY = {
    "address": None,
    "deploymentMode": None,
    "components": {"predictor": {"address": None, "url": INGRESS}},
}
RAW = standard(
    metadata={"annotations": {"serving.kserve.io/deploymentMode": "RawDeployment"}}, status=EARLY
)
MESH = {
    "deploymentMode": "ModelMesh",
    "address": None,
    "url": "grpc://modelmesh-serving.kserve-test:8033",
    "components": {
        "predictor": {
            "url": "grpc://modelmesh-serving.kserve-test:8033",
            "restUrl": "http://modelmesh-serving.kserve-test:8008",
        }
    },
}


def at(url: str) -> Json:
    return standard(status={"address": {"url": url}})


def on(*ports: Json, headless: bool = False) -> dict[Other, Any]:
    return {PREDICTOR: service(*ports, headless=headless)}


ADDRESSES: dict[str, tuple[Json, dict[Other, Any], str]] = {
    "in Knative mode that of the whole service": (
        knative(),
        {},
        "http://sklearn-iris.kserve-test.svc.cluster.local",
    ),
    "then that of a component": (knative(status={"address": None}), {}, f"http://{HOST}"),
    "then the URL for REST": (
        knative(
            status={
                "address": None,
                "components": {"predictor": {"address": None, "restUrl": "http://rest.a:8008"}},
            }
        ),
        {},
        "http://rest.a:8008",
    ),
    "then the URL of an ingress": (
        knative(status={"address": None, "components": None}),
        {},
        "http://sklearn-iris.kserve-test.example.com",
    ),
    "also below a path": (
        knative(status={**NOWHERE, "url": "https://example.com/serving/kserve-test/sklearn-iris/"}),
        {},
        "https://example.com/serving/kserve-test/sklearn-iris",
    ),
    "a transformer before its predictor": (
        knative(
            spec={"transformer": {}},
            status={
                "address": None,
                "components": {"transformer": {"address": {"url": TRANSFORMER}}},
            },
        ),
        {},
        TRANSFORMER,
    ),
    "the usual port of a Service": (standard(), on(port(80, target=8080)), f"http://{HOST}"),
    "another port of a Service": (standard(), on(port(8080)), f"http://{HOST}:8080"),
    "the target of a headless Service": (
        standard(),
        on(port(80, target=8080), headless=True),
        f"http://{HOST}:8080",
    ),
    "a headless Service after gRPC": (
        standard(),
        on(port(9000, name="grpc-port"), port(80, target=9081), headless=True),
        f"http://{HOST}:9081",
    ),
    "the port for HTTP after that for HTTP/2": (
        standard(),
        on(port(8033, name="h2c"), port(8085, name="http1")),
        f"http://{HOST}:8085",
    ),
    "a target with a name": (
        standard(),
        on(port(80, target="http"), headless=True),
        f"http://{HOST}",
    ),
    # KServe since 0.17 writes 8080 behind the name of a headless Service, whatever the container
    # listens on.
    "a port in the status": (
        at(f"http://{HOST}:8080"),
        on(port(80, target=8080)),
        f"http://{HOST}:8080",
    ),
    "a port in the status, and another one of a headless Service": (
        at(f"http://{HOST}:8080"),
        on(port(80, target=8085), headless=True),
        f"http://{HOST}:8085",
    ),
    "a port in the status, and a name in a headless Service": (
        at(f"http://{HOST}:8080"),
        on(port(80, target="http"), headless=True),
        f"http://{HOST}:8080",
    ),
    "a port in the status without a Service": (
        at(f"http://{HOST}:8080"),
        {PREDICTOR: None},
        f"http://{HOST}:8080",
    ),
    # As OpenShift AI writes it for a predictor that requires a token.
    "the port of a proxy": (
        at(f"https://{HOST}:8443"),
        on(port(8443, target="https", name="https"), port(8080, name="metrics"), headless=True),
        f"https://{HOST}:8443",
    ),
    # As KServe 0.20 names them after a canary was promoted.
    "workloads with the predictor's own name": (
        standard(spec={"predictor": {"name": "blue"}}, status=NOWHERE),
        {Other("deployments", "kserve-test", BLUE.name): deployment(), BLUE: service(port(80))},
        f"http://{BLUE.name}.kserve-test.svc.cluster.local",
    ),
    "the predictor instead of a legacy Service that does not exist": (
        at("http://sklearn-iris.kserve-test.svc.cluster.local"),
        {LEGACY: None},
        f"http://{HOST}",
    ),
    "the older predictor instead of a legacy Service": (
        at("http://sklearn-iris.kserve-test.svc.cluster.local"),
        {LEGACY: None, PREDICTOR: None, OLDER: service(port(80))},
        f"http://{OLDER.name}.kserve-test.svc.cluster.local",
    ),
    # Early versions of KServe wrote nothing else in the mode RawDeployment, which only an
    # annotation named.
    "the predictor's Service instead of an ingress": (RAW, {}, f"http://{HOST}"),
    "the older predictor's Service instead of an ingress": (
        RAW,
        {PREDICTOR: None, OLDER: service(port(80))},
        f"http://{OLDER.name}.kserve-test.svc.cluster.local",
    ),
    "an ingress without a Service": (RAW, {PREDICTOR: None, OLDER: None}, INGRESS),
    "the predictor's Service without any address": (standard(status=NOWHERE), {}, f"http://{HOST}"),
    "a Service that may not be read": (standard(), {PREDICTOR: UNREADABLE}, f"http://{HOST}"),
    "the REST address of ModelMesh": (
        standard(status=MESH),
        {},
        "http://modelmesh-serving.kserve-test:8008",
    ),
}


@pytest.mark.parametrize("case", ADDRESSES)
def test_the_address_comes_from_the_first_place_that_has_one(case: str) -> None:
    item, others, base = ADDRESSES[case]
    assert found(item, others).url == f"{base}/v2/models/sklearn-iris/infer"


def test_in_knative_mode_the_revision_and_its_time_limit_are_known() -> None:
    answer = found(knative())
    assert (answer.revision, answer.request_seconds) == ("sklearn-iris-predictor-00003", 300)


def test_the_authorities_are_those_of_the_address_that_is_used() -> None:
    secure = {**HTTPS, "CACerts": "PEM of the component"}
    whole = {"url": "https://iris.example.com", "CACerts": "PEM of the whole"}
    both = standard(status={"address": whole, "components": {"predictor": {"address": secure}}})
    assert found(both).ca_certificates == "PEM of the whole"
    assert (
        found(merged(both, {"status": {"address": None}})).ca_certificates == "PEM of the component"
    )


def test_a_ready_object_without_any_address_waits_for_the_predictors_service() -> None:
    answer = waits(standard(status=NOWHERE), {PREDICTOR: None, OLDER: None})
    assert "Service sklearn-iris-predictor does not exist" in answer.message
    assert answer.is_other


def test_model_mesh_has_a_grpc_address_next_to_the_rest_one() -> None:
    assert (
        found(standard(status=MESH), protocol="grpc-v2").url
        == "grpc://modelmesh-serving.kserve-test:8033"
    )
    assert "grpc://modelmesh-serving.kserve-test:8033" in refusal(
        merged(standard(status=MESH), {"status": {"components": None}})
    )


# The gate


def failed(transition: str = "BlockedByFailedLoad", *, active: str = "", **changes: Any) -> Json:
    failure = {"reason": "ModelLoadFailed", "message": "No module named 'sklearn'", "exitCode": 1}
    states = {"activeModelState": active, "targetModelState": "FailedToLoad"}
    model = {"transitionStatus": transition, "states": states, "lastFailureInfo": failure}
    return merged(
        standard(status={"modelStatus": model, "conditions": conditions(Ready="False")}), changes
    )


CANNOT_LOAD = "InferenceService kserve-test/sklearn-iris cannot load its model"


@pytest.mark.parametrize("transition", ["BlockedByFailedLoad", "InvalidSpec"])
def test_a_failed_load_is_final_with_the_objects_own_message_once_it_had_its_time(
    transition: str,
) -> None:
    item = edited(failed(transition), "2026-11-21T02:00:00Z")
    assert ask(item, {DEPLOYMENT: deployment(reason="ProgressDeadlineExceeded")}) == Never(
        f"{CANNOT_LOAD} ({transition}): ModelLoadFailed: No module named 'sklearn'; fix the InferenceService, and when it is "
        "ready, delete and recreate the run"
    )


def test_a_failed_load_is_waited_for_while_the_deployment_may_become_available() -> None:
    """After a fix KServe shows the old failure until the new Pod has a status, and for each exit of
    a container."""
    why = f"{CANNOT_LOAD} (BlockedByFailedLoad): ModelLoadFailed: No module named 'sklearn'; the run starts when it has loaded"
    late = "ProgressDeadlineExceeded"
    for known in (
        deployment(reason="ReplicaSetUpdated"),
        deployment(),
        deployment(reason=late, observed=1),
    ):
        assert ask(failed(), {DEPLOYMENT: known}) == NotYet(why, is_other=True)


def test_a_failed_load_of_the_generation_before_an_edit_is_waited_for_until_kserve_has_dealt_with_the_edit() -> (
    None
):
    """Its Deployment has exceeded the deadline, and does not show the edit yet."""
    late = {DEPLOYMENT: deployment(reason="ProgressDeadlineExceeded")}
    item = failed(metadata={"generation": 2})
    waits(edited(item, "2026-11-21T02:59:30Z"), late)
    refusal(edited(item, "2026-11-21T02:58:59Z"), late)


@pytest.mark.parametrize("known", [None, UNREADABLE])
def test_without_a_deployment_a_failed_load_is_final_some_time_after_the_last_edit(
    known: Any,
) -> None:
    for item in (failed(), failed(status={"deploymentMode": "Knative"})):
        answer = waits(edited(item, "2026-11-21T02:51:00Z"), {DEPLOYMENT: known})
        assert answer.until == datetime(2026, 11, 21, 3, 1, tzinfo=UTC)
        refusal(edited(item, "2026-11-21T02:49:00Z"), {DEPLOYMENT: known})


def test_an_invalid_spec_is_final_when_kserve_had_the_time_to_read_its_edit() -> None:
    answer = waits(edited(failed("InvalidSpec"), "2026-11-21T02:59:30Z"))
    assert answer.until == datetime(2026, 11, 21, 3, 0, 30, tzinfo=UTC)
    refusal(edited(failed("InvalidSpec"), "2026-11-21T02:58:30Z"))


@pytest.mark.parametrize(
    "known",
    [
        deployment(old=1, new=1, reason="ReplicaSetUpdated"),
        deployment(old=1, new=0),
        deployment(observed=1),
    ],
    ids=["surge", "not-begun", "not-seen"],
)
def test_an_object_that_is_ready_is_waited_for_while_pods_of_its_previous_version_serve(
    known: Json,
) -> None:
    """KServe copies Ready from the Deployment, which is available as long as enough Pods are, old
    or new."""
    answer = waits(standard(), {DEPLOYMENT: known})
    assert answer.is_other
    assert "InferenceService kserve-test/sklearn-iris is being updated" in answer.message
    assert (
        "kubectl -n kserve-test rollout status deployment sklearn-iris-predictor" in answer.message
    )


def test_a_deployment_that_only_scales_is_not_waited_for() -> None:
    for known in (
        deployment(new=3, reason="ReplicaSetUpdated"),
        deployment(new=0),
        UNREADABLE,
        None,
    ):
        found(standard(), {DEPLOYMENT: known})


def test_an_llm_service_is_waited_for_while_pods_of_its_previous_version_serve() -> None:
    waits(llm(), {LLM_DEPLOYMENT: deployment(old=1, new=1)})
    found(llm(status={"workloads": None}), {LLM_DEPLOYMENT: None})


def test_a_model_that_was_scaled_to_zero_is_ready_to_be_woken_up() -> None:
    """KServe reports its transition as in progress until a Pod runs, which only a request
    starts."""
    states = {"activeModelState": "Loaded", "targetModelState": "Pending"}
    model = {
        "transitionStatus": "InProgress",
        "states": states,
        "copies": {"failedCopies": 0, "totalCopies": None},
    }
    item = merged(knative(), {"status": {"modelStatus": model}})
    assert found(item).url.startswith("http://sklearn-iris.")


QUOTA = ("False", "FailedCreate", 'pods "iris" is forbidden: exceeded quota')
NO_INGRESS = ("False", "Predictor ingress not created", "")
LOADING = {
    "transitionStatus": "InProgress",
    "states": {"activeModelState": "Loaded", "targetModelState": "Loading"},
    "copies": {"totalCopies": 1},
}
WAITS: dict[str, tuple[Json, dict[Other, Any], str]] = {
    "a status of an earlier generation": (standard(metadata={"generation": 2}), {}, "was edited"),
    "a status of an earlier generation of a language model": (
        llm(metadata={"generation": 4}),
        {},
        "was edited",
    ),
    "no status": (standard(status=None), {}, ""),
    "no status of a language model": (llm(status=None), {}, ""),
    "no conditions": (standard(status={"conditions": None}), {}, ""),
    "a deletion": (
        standard(metadata={"deletionTimestamp": "2026-11-21T02:00:00Z"}),
        {},
        "is being deleted",
    ),
    "a stop, even with a wrong configuration": (
        llm(
            metadata={"annotations": {"serving.kserve.io/stop": "true"}},
            status={
                "conditions": conditions(
                    PresetsCombined=("False", "ConfigNotFound", "gone"), Ready="False"
                )
            },
        ),
        {},
        "is stopped",
    ),
    "a missing Service": (
        llm(),
        {WORKLOAD: None},
        "its Service tiny-llm-kserve-workload-svc does not exist",
    ),
    "a component, rather than the ingress that waits for it": (
        standard(
            status={
                "conditions": conditions(
                    IngressReady=NO_INGRESS, PredictorReady=QUOTA, Ready=NO_INGRESS
                )
            }
        ),
        {},
        'PredictorReady is False (FailedCreate: pods "iris" is forbidden: exceeded quota)',
    ),
    "an update in progress although the old model is ready": (
        standard(status={"modelStatus": LOADING}),
        {},
        "is not up to date: its model is Loaded, and the next one is Loading (InProgress); the run starts when it is",
    ),
    "a model that was loaded and exits": (
        edited(
            failed(active="Loaded", status={"deploymentMode": "Knative"}), "2026-11-20T00:00:00Z"
        ),
        {},
        "",
    ),
}


@pytest.mark.parametrize("case", WAITS)
def test_an_object_that_is_not_ready_is_waited_for_with_the_reason(case: str) -> None:
    item, others, said = WAITS[case]
    assert said in waits(item, others).message


def test_an_edit_that_did_not_reach_the_deployment_does_not_hold_runs_for_ever() -> None:
    """KServe copies observedGeneration from the Deployment, which an edit of spec.predictor.timeout
    does not change."""
    item = standard(metadata={"generation": 2})
    waits(edited(item, "2026-11-21T02:59:30Z"))
    found(edited(item, "2026-11-21T02:58:59Z"))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("PresetsCombined", "ConfigNotFound"),
        ("PresetsCombined", "CombineBaseError"),
        ("PresetsCombined", "InvalidRenderedConfig"),
        ("HTTPRoutesReady", "RefsInvalid"),
    ],
)
def test_a_configuration_error_of_an_llm_service_is_final(kind: str, reason: str) -> None:
    given: Any = {
        kind: ("False", reason, "llminferenceserviceconfig big not found"),
        "Ready": ("False", reason, "x"),
    }
    assert f"{kind} is False ({reason}: llminferenceserviceconfig big not found)" in refusal(
        llm(status={"conditions": conditions(**given)})
    )


def test_malformed_statuses_raise_nothing() -> None:
    statuses: tuple[Any, ...] = (
        {"conditions": "x"},
        {"conditions": [7, None]},
        {"addresses": {"a": 1}},
        {"modelStatus": []},
        [],
    )
    for status in statuses:
        for item in (standard(), llm()):
            waits({**item, "status": status})


# Name and protocol


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["--model_name=iris"], "iris"),
        (["--model_name", "iris"], "iris"),
        (["--served-model-name", "iris", "--port", "8080"], "iris"),
        (["--model_name={{.Name}}"], "sklearn-iris"),
        ([], "sklearn-iris"),
    ],
)
def test_the_models_name_is_that_of_the_servers_arguments_or_the_objects(
    arguments: list[str], name: str
) -> None:
    container = {"name": "kserve-container", "image": "own:1", "args": arguments}
    answer = found(standard(spec={"predictor": {"containers": [container]}}))
    assert (answer.model_name, answer.url) == (name, f"http://{HOST}/v2/models/{name}/infer")


def test_the_name_of_an_mlserver_model_comes_from_its_environment_and_a_transformers_takes_precedence() -> (
    None
):
    item = with_model(
        standard(), protocolVersion="v2", env=[{"name": "MLSERVER_MODEL_NAME", "value": "wine"}]
    )
    assert found(item).model_name == "wine"
    transformer = {"containers": [{"name": "kserve-container", "args": ["--model_name=scaled"]}]}
    beside = {Other("services", "kserve-test", "sklearn-iris-transformer"): service(port(80))}
    assert (
        found(merged(item, {"spec": {"transformer": transformer}}), beside).model_name == "scaled"
    )


def test_the_config_may_name_another_model() -> None:
    assert (
        found(standard(), model_name="a model/1").url
        == f"http://{HOST}/v2/models/a%20model%2F1/infer"
    )


SHARED = Other("clusterservingruntimes", "", "kserve-sklearnserver")
OWN = Other("servingruntimes", "kserve-test", "own-runtime")


def served_by(runtime: Other, **model: Any) -> Json:
    return with_model(standard(status={"clusterServingRuntimeName": runtime.name}), **model)


@pytest.mark.parametrize(
    ("model", "status", "others", "protocol"),
    [
        ({"protocolVersion": "v2"}, {}, {}, "v2"),
        ({"protocolVersion": "v1"}, {"clusterServingRuntimeName": SHARED.name}, {}, "v1"),
        ({}, {"clusterServingRuntimeName": SHARED.name}, {SHARED: runtime("v1", "v2")}, "v2"),
        ({}, {"servingRuntimeName": OWN.name}, {OWN: runtime("v2", "grpc-v2")}, "v2"),
        ({"runtime": SHARED.name}, {}, {SHARED: runtime("openai", "v1")}, "openai"),
    ],
)
def test_the_protocol_is_the_declared_one_or_one_of_the_runtime_that_the_runner_speaks(
    model: Json, status: Json, others: dict[Other, Any], protocol: str
) -> None:
    assert found(with_model(standard(status=status), **model), others).protocol == protocol


def test_a_runtime_is_asked_for_only_if_the_object_leaves_the_protocol_open() -> None:
    item = served_by(SHARED)
    assert ask(item) == Needs(SHARED)
    found(item, protocol="v2")
    found(with_model(item, protocolVersion="v2"))


TORCH = Other("clusterservingruntimes", "", "kserve-torchserve")
VLLM = Other("clusterservingruntimes", "", "kserve-vllmserver")


@pytest.mark.parametrize(
    ("used", "known"),
    [
        (SHARED, runtime("v1", "v2", server="torchserve")),
        (TORCH, runtime("v1", "v2", "grpc-v2")),
        (TORCH, UNREADABLE),
    ],
    ids=["annotated", "named", "unreadable"],
)
def test_torchserve_is_started_with_v1_unless_the_object_says_otherwise(
    used: Other, known: Any
) -> None:
    item = served_by(used, modelFormat={"name": "pytorch"})
    assert found(item, {used: known}).protocol == "v1"
    assert found(with_model(item, protocolVersion="v2")).protocol == "v2"


@pytest.mark.parametrize("is_our_runner", [True, False])
@pytest.mark.parametrize(
    ("used", "known", "protocol"),
    [
        (VLLM, runtime(server="vllmserver"), "openai"),
        (SHARED, runtime(), "openai"),
        (SHARED, UNREADABLE, "openai"),
        (SHARED, runtime("v2"), "v2"),
    ],
)
def test_vllm_speaks_openais_api_unless_its_runtime_lists_the_protocol_that_kserve_has_added(
    *, used: Other, known: Any, protocol: str, is_our_runner: bool
) -> None:
    """KServe's webhook adds `protocolVersion: v2` to each model of this format that has none."""
    item = served_by(used, modelFormat={"name": "vLLM"}, protocolVersion="v2")
    answer = found(item, {used: known}, is_our_runner=is_our_runner)
    assert answer.protocol == protocol
    if protocol == "openai":
        assert (answer.url, answer.model_name) == (f"http://{HOST}/v1", "sklearn-iris")


@pytest.mark.parametrize("known", [runtime("v1"), None, UNREADABLE])
def test_a_model_that_declares_no_protocol_speaks_v1_as_in_kserve(known: Any) -> None:
    item = served_by(SHARED)
    answer = found(item, {SHARED: known})
    assert (answer.protocol, answer.url) == ("v1", f"http://{HOST}/v1/models/sklearn-iris:predict")


def test_a_model_that_speaks_no_protocol_of_the_runner_is_refused_with_what_to_do() -> None:
    item = served_by(SHARED, protocolVersion="grpc-v1")
    message = refusal(item, {SHARED: runtime("grpc-v1")})
    assert (
        "speaks grpc-v1, but the built-in runner speaks v2 and openai and v1 and grpc-v2; set protocolVersion: v2"
        in message
    )
    assert found(item, {SHARED: runtime("grpc-v1")}, is_our_runner=False).protocol == "grpc-v1"


HTTP_AND_GRPC = (port(80, target=8080), port(9000, name="grpc-port"))
GRPC_ADDRESSES: dict[str, tuple[Json, dict[Other, Any], str]] = {
    "the only port": (standard(), on(port(80, target=8081, name="h2c")), f"grpc://{HOST}:80"),
    "beside that for HTTP": (standard(), on(*HTTP_AND_GRPC), f"grpc://{HOST}:9000"),
    "before that for HTTP": (
        standard(),
        on(port(8033, name="h2c"), port(8085, name="http1")),
        f"grpc://{HOST}:8033",
    ),
    "of a headless Service": (
        standard(),
        on(port(80, target=8081, name="h2c"), headless=True),
        f"grpc://{HOST}:8081",
    ),
    "without a name for gRPC": (
        standard(),
        on(port(9000, name="predictor")),
        f"grpc://{HOST}:9000",
    ),
    "although the address has that for HTTP": (
        at(f"http://{HOST}:8080"),
        on(*HTTP_AND_GRPC),
        f"grpc://{HOST}:9000",
    ),
    "although a headless address has that for HTTP": (
        at(f"http://{HOST}:8080"),
        on(*HTTP_AND_GRPC, headless=True),
        f"grpc://{HOST}:9000",
    ),
    "of the predictor's Service instead of an ingress": (RAW, {}, f"grpc://{HOST}:80"),
    "of the gateway in Knative mode": (
        knative(status={"address": {"url": "http://iris.a.svc.cluster.local"}}),
        {},
        "grpc://iris.a.svc.cluster.local:80",
    ),
    "of a gateway with TLS": (
        knative(status={"address": {"url": "https://iris.example.com"}}),
        {},
        "grpcs://iris.example.com:443",
    ),
}


@pytest.mark.parametrize("is_our_runner", [True, False])
@pytest.mark.parametrize("case", GRPC_ADDRESSES)
def test_a_model_that_speaks_grpc_only_is_reached_at_the_port_for_grpc(
    case: str, *, is_our_runner: bool
) -> None:
    item, others, url = GRPC_ADDRESSES[case]
    answer = found(with_model(item, protocolVersion="grpc-v2"), others, is_our_runner=is_our_runner)
    assert (answer.protocol, answer.url) == ("grpc-v2", url)


def test_a_runtime_that_offers_only_grpc_is_used_with_it() -> None:
    item = served_by(SHARED)
    answer = found(item, {SHARED: runtime("grpc-v2"), PREDICTOR: service(port(8081, name="h2c"))})
    assert (answer.protocol, answer.url) == ("grpc-v2", f"grpc://{HOST}:8081")


def test_a_custom_container_declares_its_protocol_in_its_environment() -> None:
    container = {"name": "kserve-container", "env": [{"name": "PROTOCOL", "value": "v1"}]}
    item = standard(spec={"predictor": {"containers": [container]}})
    assert found(item).protocol == "v1"
    assert found(item, protocol="v2").protocol == "v2"


def test_hugging_face_models_have_openais_api_below_a_path() -> None:
    item = with_model(standard(), modelFormat={"name": "huggingface"})
    assert found(item, protocol="openai").url == f"http://{HOST}/openai/v1"
    assert found(standard(), protocol="openai").url == f"http://{HOST}/v1"


# Addresses of an LLMInferenceService


def test_behind_a_gateway_the_internal_address_that_knows_the_model_is_preferred() -> None:
    answer = found(llm_with_router())
    assert (answer.url, answer.model_name) == (
        "http://gw.kserve.svc.cluster.local:8080/kserve-test/tiny-llm/v1",
        "tiny",
    )


def test_an_address_that_routes_by_model_gets_the_qualified_name() -> None:
    item = llm_with_router()
    item["status"]["addresses"].pop()
    answer = found(item)
    assert answer.url == "http://gw.kserve.svc.cluster.local:8080/v1"
    assert answer.model_name == "publishers/kserve-test/models/tiny"


@pytest.mark.parametrize("addresses", [None, []])
def test_without_addresses_the_promoted_url_is_used(addresses: list[Json] | None) -> None:
    """As in v1alpha1, and if a gateway has no address of its own."""
    item = llm_with_router(apiVersion="serving.kserve.io/v1alpha1", status={"addresses": addresses})
    assert found(item).url == "https://models.example.com/kserve-test/tiny-llm/v1"
    assert "no address yet" in waits(merged(item, {"status": {"url": None}})).message


def test_status_address_is_not_read() -> None:
    item = llm_with_router(status={"address": {"url": "http://never.set"}})
    assert found(item).url.startswith("http://gw.")


def test_with_tls_the_certificate_is_in_the_secret_that_kserve_makes() -> None:
    url = "https://tiny-llm-kserve-workload-svc.kserve-test.svc.cluster.local"
    answer = found(llm(status={"addresses": [{"url": url}]}))
    assert answer.url == f"{url}:8000/v1"
    assert answer.ca_secret == "tiny-llm-kserve-self-signed-certs"
    given = found(llm(status={"addresses": [{"url": url, "CACerts": "PEM"}]}))
    assert (given.ca_certificates, given.ca_secret) == ("PEM", "")
    assert found(llm_with_router()).ca_secret == ""  # a gateway has a certificate of its own


def test_the_secret_of_an_object_with_a_long_name_is_named_as_kserve_names_it() -> None:
    """At most 63 characters: six of the name, the MD5 hash of the name, and the suffix."""
    name = "a-language-model-with-a-very-long-name-for-everybody"
    url = "https://workload.kserve-test.svc.cluster.local:8000"
    answer = found(llm(metadata={"name": name}, status={"addresses": [{"url": url}]}))
    assert answer.ca_secret == "a-langfa022517cb1438a7b2b51903d860cce1-kserve-self-signed-certs"


def test_an_adapter_is_addressed_by_its_name_and_an_unknown_one_is_refused() -> None:
    adapters = [{"name": "legal", "uri": "hf://org/legal"}]
    item = llm(spec={"model": {"lora": {"adapters": adapters}}})
    assert found(item, model_name="legal").model_name == "legal"
    assert (
        found(
            llm_with_router(spec={"model": {"lora": {"adapters": adapters}}}), model_name="legal"
        ).model_name
        == "legal"
    )
    message = refusal(item, model_name="medical")
    assert (
        "kserve.modelName is 'medical', but LLMInferenceService kserve-test/tiny-llm serves tiny, legal"
        in message
    )


BASE = Other("llminferenceserviceconfigs", "kserve-test", "base")
SYSTEM_BASE = Other("llminferenceserviceconfigs", "kserve", "base")


def based(**changes: Any) -> Json:
    return llm(spec={"baseRefs": [{"name": "first"}, {"name": "base"}], "model": changes})


def config(**model: Any) -> Json:
    return {"kind": "LLMInferenceServiceConfig", "spec": {"model": model}}


FIRST = {
    Other("llminferenceserviceconfigs", "kserve-test", "first"): config(
        name="other", uri="hf://org/other"
    )
}


def test_a_model_that_a_base_names_is_served_under_that_name() -> None:
    """KServe merges the bases over the object as far as the name is concerned; the last one takes
    precedence."""
    assert ask(based(name=None)) == Needs(BASE)
    for own in (None, "tiny-llm"):
        assert found(based(name=own), {BASE: config(name="llama"), **FIRST}).model_name == "llama"
    assert (
        found(based(name=None), {BASE: None, SYSTEM_BASE: config(name="llama"), **FIRST}).model_name
        == "llama"
    )
    assert found(based(name="tiny"), {BASE: config(), **FIRST}).model_name == "other"
    assert found(llm(spec={"model": {"name": None}})).model_name == "tiny-llm"


def test_a_base_that_must_not_be_read_is_warned_about() -> None:
    answer = found(based(name=None), {BASE: UNREADABLE, **FIRST})
    assert [
        "LLMInferenceServiceConfig base cannot be read" in warning for warning in answer.warnings
    ] == [True]
    assert (
        found(based(name=None), {BASE: UNREADABLE, **FIRST}, model_name="llama").model_name
        == "llama"
    )


def test_the_models_that_addresses_list_make_reading_the_bases_needless() -> None:
    item = llm_with_router(spec={"baseRefs": [{"name": "base"}], "model": {"name": "not-this"}})
    assert found(item).model_name == "tiny"
    refusal(item, model_name="not-this")


def test_adapters_and_routes_of_a_base_count() -> None:
    adapters = {"lora": {"adapters": [{"name": "legal"}]}}
    assert (
        found(based(), {BASE: config(**adapters), **FIRST}, model_name="legal").model_name
        == "legal"
    )
    routed = merged(config(name="llama"), {"spec": {"router": {"route": {}}}})
    item = merged(
        based(),
        {"status": {"addresses": [{"url": "https://llama.kserve-test.svc.cluster.local/llama"}]}},
    )
    assert found(item, {BASE: routed, **FIRST}).ca_secret == ""


def test_without_a_router_and_addresses_the_workloads_service_is_used() -> None:
    """KServe 0.16 writes addresses only for routes; its template serves without TLS."""
    item = llm(apiVersion="serving.kserve.io/v1alpha1", status={"addresses": None})
    assert (
        found(item).url
        == "http://tiny-llm-kserve-workload-svc.kserve-test.svc.cluster.local:8000/v1"
    )
    assert waits(item, {WORKLOAD: None}).is_other


# Limits


def test_concurrency_follows_the_limit_of_a_container_and_the_replicas() -> None:
    item = standard(spec={"predictor": {"containerConcurrency": 3, "minReplicas": 2}})
    assert found(item).concurrency == 6
    assert (
        found(merged(item, {"status": {"modelStatus": {"copies": {"totalCopies": 4}}}})).concurrency
        == 12
    )
    assert found(standard()).concurrency == 0


def test_the_time_limit_of_a_request_is_the_shortest_on_its_way() -> None:
    item = standard(spec={"predictor": {"timeout": 600}, "transformer": {"timeout": 60}})
    assert (
        found(
            item, {Other("services", "kserve-test", "sklearn-iris-transformer"): service(port(80))}
        ).request_seconds
        == 60
    )
    assert found(standard()).request_seconds == 0


def test_a_batcher_in_front_of_the_model_is_warned_about() -> None:
    answer = found(standard(spec={"predictor": {"batcher": {"maxBatchSize": 32}}}))
    assert ["spec.predictor.batcher" in warning for warning in answer.warnings] == [True]


def test_a_canary_is_warned_about() -> None:
    canary = {"predictor": {"name": "blue"}, "trafficPercent": 20}
    answer = found(standard(spec={"canary": [canary]}))
    assert ["has canaries (blue)" in warning for warning in answer.warnings] == [True]
    split = found(knative(spec={"predictor": {"canaryTrafficPercent": 10}}))
    assert [
        "sends 10 % of the requests to its latest revision" in one for one in split.warnings
    ] == [True]
    for percent in (0, 100):
        assert found(knative(spec={"predictor": {"canaryTrafficPercent": percent}})).warnings == ()
