"""What a run executes is fixed when it starts."""

import json
from dataclasses import replace
from typing import Any

import pytest

from inferrun.kserve import ModelAddress
from inferrun.launches.compilation import compile_run, compile_with_model
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.launches.pod_mounts import EndpointSecret, MountedClaim, MountedKey
from inferrun.launches.snapshot import CompiledRun
from inferrun.reasons import Reason
from inferrun.resources import AutoDeletePolicy
from inferrun.resources.config import LARGEST_SIZE, LEAST_SIZE, LEAST_WINDOW
from inferrun.resources.validation import config_problems
from inferrun.run_defaults import Defaults
from inferrun_runner.settings import read_settings
from tests.unit.objects import config, run

DEFAULTS = Defaults(runner_image="registry/runner:1")


def compile_of(
    *,
    spec: dict[str, Any] | None = None,
    account: str = "",
    defaults: Defaults = DEFAULTS,
    address: ModelAddress | None = None,
    **run_spec: Any,
) -> CompiledRun:
    given = config(**(spec or {}))
    return compile_run(
        run(**run_spec), given, defaults=defaults, runner_account=account, address=address
    )


def compiled(**given: Any) -> Any:
    return compile_of(**given).snapshot


def krateo(secret: object) -> dict[str, Any]:
    return {"krateo": {"api": {"path": "/", "endpointRef": secret}}}


def test_without_an_image_it_is_our_runner() -> None:
    snapshot = compiled()
    assert (snapshot.image, snapshot.is_our_runner) == ("registry/runner:1", True)


@pytest.mark.parametrize(
    ("image", "ours"), [("registry/runner:1", True), ("registry/runner:2", False)]
)
def test_only_the_installations_runner_image_is_ours(*, image: str, ours: bool) -> None:
    snapshot = compiled(spec={"image": image})
    assert (snapshot.image, snapshot.is_our_runner) == (image, ours)


@pytest.mark.parametrize(
    ("of_run", "of_config", "expected"),
    [(None, None, 2), (None, 5, 5), (1, 5, 1), (0, 5, 0), (None, 0, 0)],
)
def test_the_runs_backoff_limit_overrides_the_configs_which_overrides_the_installations(
    of_run: int | None, of_config: int | None, expected: int
) -> None:
    assert compiled(spec={"backoffLimit": of_config}, backoffLimit=of_run).backoff_limit == expected


@pytest.mark.parametrize(
    ("of_run", "of_config", "expected"),
    [
        (None, None, None),
        (None, "5%", "5%"),
        ("1%", "5%", "1%"),
        (0, 5, "0"),
        (None, 0, "0"),
        (7, None, "7"),
    ],
)
def test_the_runs_error_threshold_overrides_the_configs_and_is_text_in_the_contract(
    of_run: int | str | None, of_config: int | str | None, expected: str | None
) -> None:
    made = compile_of(spec={"errorThreshold": of_config, "canaryRecords": 9}, errorThreshold=of_run)
    contract = json.loads(made.contract_json)
    assert contract.get("errorThreshold") == expected
    assert contract["canaryRecords"] == 9


def test_columns_are_in_the_contract_without_what_is_not_set() -> None:
    tensors = {
        "inputs": [{"columns": ["a", "b"]}],
        "outputs": [{"name": "predict", "resultName": "kind"}],
    }
    given = config(tensors=tensors, passThroughColumns=["c"], joinSource="None")
    contract = json.loads(
        compile_run(run(), given, defaults=Defaults(), runner_account="").contract_json
    )
    assert (contract["tensors"], contract["passThroughColumns"]) == (tensors, ["c"])
    assert "joinSource" not in contract
    joined = compile_of(spec={"joinSource": "Input"}).contract_json
    assert json.loads(joined)["joinSource"] == "Input"
    assert json.loads(joined).keys().isdisjoint({"tensors", "passThroughColumns"})


def test_the_request_is_part_of_the_contract_and_its_config_map_of_the_snapshot() -> None:
    request = {
        "task": "Chat",
        "prompt": "{{ title }}",
        "systemFrom": {"configMapKeyRef": {"name": "prompts", "key": "sort.txt"}},
        "images": [{"column": "photo"}],
        "responseSchema": {"type": "object", "properties": {"a": {"type": ["string", "null"]}}},
        "body": {"seed": 0, "stop": None},
    }
    made = compile_of(spec={"request": request})
    found = json.loads(made.contract_json)["request"]
    assert found == {name: one for name, one in request.items() if name != "task"}
    assert made.snapshot.system_prompt == MountedKey(config_map="prompts", key="sort.txt")


def test_a_dry_run_is_in_the_contract_and_in_the_snapshot() -> None:
    made = compile_of(spec={"image": None}, dryRun=True)
    assert json.loads(made.contract_json)["dryRun"] is True
    assert made.snapshot.success is Reason.DRY_RUN_SUCCEEDED


def test_an_image_that_would_execute_a_dry_run_is_never_launched() -> None:
    with pytest.raises(LaunchBlocked) as blocked:
        compile_of(spec={"image": "mine:1"}, dryRun=True)
    assert (blocked.value.reason, blocked.value.is_retryable) == (Reason.INVALID_SPEC, False)
    assert "spec.dryRun" in blocked.value.message
    assert "'mine:1'" in blocked.value.message


def test_limits_and_policies_are_copied() -> None:
    snapshot = compiled(
        spec={
            "autoDeletePolicy": "DeleteOnSuccess",
            "autoDeleteDelaySeconds": 0,
            "ttlSecondsAfterFinished": 0,
            "imagePullPolicy": "Never",
            "credentialsRef": {"name": "pull", "namespace": "elsewhere"},
            "runAsUser": 1000,
            "resources": {"requests": {"cpu": 1, "memory": "64Mi"}, "limits": {}},
        },
        timeoutSeconds=60,
        pendingTimeoutSeconds=900,
    )
    assert snapshot.auto_delete_policy is AutoDeletePolicy.DELETE_ON_SUCCESS
    assert (snapshot.auto_delete_delay_seconds, snapshot.ttl_seconds_after_finished) == (0, 0)
    assert snapshot.pending_timeout_seconds == 900
    assert (snapshot.image_pull_policy, snapshot.pull_secret, snapshot.pull_secret_namespace) == (
        "Never",
        "pull",
        "elsewhere",
    )
    assert snapshot.run_as_user == 1000
    assert snapshot.resources["requests"] == {
        "cpu": "1",
        "memory": "64Mi",
        "ephemeral-storage": "100Mi",
    }
    assert snapshot.resources["limits"] == {"memory": "2Gi", "ephemeral-storage": "24Gi"}


@pytest.mark.parametrize(
    ("given", "requests", "limits"),
    [
        ({}, {"cpu": "50m", "memory": "128Mi"}, {"memory": "2Gi"}),
        ({"requests": {"memory": "1Gi"}}, {"cpu": "50m", "memory": "1Gi"}, {"memory": "2Gi"}),
        ({"requests": {"memory": "4Gi"}}, {"cpu": "50m", "memory": "4Gi"}, {}),
        ({"limits": {"memory": "64Mi", "cpu": 2}}, {}, {"memory": "64Mi", "cpu": "2"}),
    ],
)
def test_resources_that_a_config_does_not_mention_have_the_defaults_of_the_installation(
    given: dict[str, Any], requests: dict[str, str], limits: dict[str, str]
) -> None:
    defaults = Defaults(runner_requests=("cpu=50m", "memory=128Mi"), runner_limits=("memory=2Gi",))
    expected = {"requests": requests, "limits": limits}
    assert compiled(spec={"resources": given}, defaults=defaults).resources == {
        part: amounts for part, amounts in expected.items() if amounts
    }


@pytest.mark.parametrize(
    ("of_config", "of_run", "expected"),
    [
        ({"requests": {"cpu": 1}}, {"requests": {"cpu": "2"}}, {"requests": {"cpu": "2"}}),
        (
            {"limits": {"memory": "1Gi"}},
            {"limits": {"cpu": 1}},
            {"limits": {"memory": "1Gi", "cpu": "1"}},
        ),
        (
            {"limits": {"memory": "1Gi"}},
            {"requests": {"memory": "4Gi"}},
            {"requests": {"memory": "4Gi"}},
        ),
        (
            {"requests": {"memory": "4Gi"}, "limits": {"memory": "8Gi", "nvidia.com/gpu": 1}},
            {"limits": {"memory": "1Gi"}},
            {"limits": {"nvidia.com/gpu": "1", "memory": "1Gi"}},
        ),
        ({"requests": {"cpu": 1}}, {}, {"requests": {"cpu": "1"}}),
    ],
)
def test_what_a_run_says_about_a_resource_replaces_what_its_config_says(
    of_config: dict[str, Any], of_run: dict[str, Any], expected: dict[str, Any]
) -> None:
    defaults = Defaults(runner_requests=(), runner_limits=())
    assert (
        compiled(spec={"resources": of_config}, resources=of_run, defaults=defaults).resources
        == expected
    )


def test_a_limit_of_ephemeral_storage_is_that_of_tmp() -> None:
    given = {"limits": {"ephemeral-storage": "60Gi"}}
    assert (
        compiled(spec={"resources": given}).tmp_size == compiled(resources=given).tmp_size == "60Gi"
    )
    assert (
        compiled(spec={"resources": {"requests": {"ephemeral-storage": "1Gi"}}}).tmp_size == "20Gi"
    )


def test_the_placement_is_read_back_as_the_config_has_it() -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    placed = {
        "nodeSelector": {"pool": "spot"},
        "priorityClassName": "low",
        "topologySpreadConstraints": [spread],
    }
    made = compile_of(spec=placed)
    assert CompiledRun.read(made.texts, base_name="a").snapshot.placement.to_manifest() == placed
    assert compiled().placement.to_manifest() == {}


def test_the_root_file_system_is_read_only_for_our_runner_alone() -> None:
    assert compiled().is_root_read_only
    assert compiled(spec={"image": DEFAULTS.runner_image}).is_root_read_only
    assert not compiled(spec={"image": "mine:1"}).is_root_read_only
    assert compiled().tmp_size == "20Gi"


def test_a_snapshot_that_is_too_large_for_a_message_is_rejected() -> None:
    limits = {f"example.com/{'r' * 300}{number}": 1 for number in range(32)}
    with pytest.raises(LaunchBlocked, match="at most 8192 are allowed") as blocked:
        compiled(spec={"resources": {"limits": limits}})
    assert blocked.value.reason is Reason.CONTRACT_TOO_LARGE


@pytest.mark.parametrize(
    ("named", "installed", "expected"),
    [(None, "", ""), (None, "runner", "runner"), ("own", "runner", "own")],
)
def test_the_configs_service_account_overrides_the_installations(
    named: str | None, installed: str, expected: str
) -> None:
    spec = {"serviceAccountName": named, "image": "custom:1"}
    assert compiled(spec=spec, account=installed).service_account == expected


def test_our_own_runner_does_not_get_the_installations_service_account() -> None:
    assert compiled(account="runner").service_account == ""
    assert compiled(spec={"image": DEFAULTS.runner_image}, account="runner").service_account == ""
    assert compiled(spec={"serviceAccountName": "own"}, account="runner").service_account == "own"


def test_without_a_fixed_user_the_cluster_assigns_it() -> None:
    assigned = DEFAULTS.model_copy(update={"fixed_user": False})
    snapshot = compiled(defaults=assigned)
    assert (snapshot.run_as_user, snapshot.has_fixed_group) == (None, False)
    chosen = compiled(spec={"runAsUser": 1000}, defaults=assigned)
    assert chosen.run_as_user == 1000


def test_the_secrets_of_input_and_output_are_found_with_their_namespaces() -> None:
    storage = {
        "input": krateo({"name": "in", "namespace": "shared"}),
        "output": krateo({"name": "out"}),
    }
    assert compiled(spec={"storage": storage}).endpoints == (
        EndpointSecret(end="input", secret="in", named_namespace="shared"),
        EndpointSecret(end="output", secret="out"),
    )


@pytest.mark.parametrize(
    "storage",
    [
        {"input": {"krateo": None}},
        {"input": {"krateo": "text"}},
        {"input": {"krateo": {"api": []}}},
        {"input": {"krateo": {"api": {"endpointRef": "name"}}}},
        {"input": {"krateo": {"api": {"endpointRef": {"name": 5}}}}},
        {"input": {"own": {"api": {"endpointRef": "x"}}}},
        {"input": None, "output": None},
    ],
)
def test_unknown_storage_has_no_secret_and_is_no_error(storage: dict[str, Any]) -> None:
    assert compiled(spec={"storage": storage}).endpoints == ()


def test_the_claims_of_input_and_output_are_found() -> None:
    storage = {
        "input": {"file": {"claimName": "rows"}},
        "output": {"file": {"claimName": "rows", "path": "out"}},
    }
    assert compiled(spec={"storage": storage}).claims == (
        MountedClaim(end="input", name="rows"),
        MountedClaim(end="output", name="rows"),
    )


def test_only_the_name_of_a_queue_is_inherited_by_default() -> None:
    labels = {
        "kueue.x-k8s.io/queue-name": "small",
        "kueue.x-k8s.io/priority-class": "high",
        "team": "a",
        "inferrun.dev/run-uid": "forged",
    }
    snapshot = compiled(metadata={"labels": labels})
    assert snapshot.labels == {"kueue.x-k8s.io/queue-name": "small"}


def test_the_operator_chooses_which_labels_are_inherited() -> None:
    labels = {"kueue.x-k8s.io/queue-name": "small", "team": "a"}
    chosen = DEFAULTS.model_copy(update={"propagated_labels": ("team",)})
    assert compiled(metadata={"labels": labels}, defaults=chosen).labels == {"team": "a"}


def annotations_of(
    annotations: dict[str, str], *, excluded: tuple[str, ...] | None = None
) -> dict[str, str]:
    chosen = (
        DEFAULTS
        if excluded is None
        else DEFAULTS.model_copy(update={"excluded_annotations": excluded})
    )
    found: dict[str, str] = compiled(
        metadata={"annotations": annotations}, defaults=chosen
    ).annotations
    return found


def test_annotations_are_inherited_except_for_those_that_are_excluded() -> None:
    annotations = {
        "example.com/owner": "team-a",
        "sidecar.istio.io/inject": "false",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "kueue.x-k8s.io/retriable-in-group": "true",
        "argocd.argoproj.io/sync-wave": "1",
    }
    assert annotations_of(annotations) == {
        "example.com/owner": "team-a",
        "sidecar.istio.io/inject": "false",
    }
    assert annotations_of(annotations, excluded=("sidecar.*", "k*", "argo*")) == {
        "example.com/owner": "team-a"
    }
    assert annotations_of(annotations, excluded=("*",)) == {}


def test_our_own_annotations_are_never_inherited() -> None:
    own = {
        "inferrun.dev/signature": "forged",
        "krateo.io/paused": "true",
        "inferrun.dev/stopped": "true",
    }
    assert annotations_of(own, excluded=()) == {}


def test_annotations_beyond_two_kibibytes_are_left_out() -> None:
    annotations = {f"example.com/{name}": "x" * 900 for name in "abcd"}
    assert list(annotations_of(annotations)) == ["example.com/a", "example.com/b"]


def test_an_oversized_contract_is_rejected_with_the_sizes() -> None:
    with pytest.raises(LaunchBlocked) as caught:
        compile_of(parameters={f"p{number}": "x" * 60_000 for number in range(5)})
    assert caught.value.reason is Reason.CONTRACT_TOO_LARGE
    assert "262144" in caught.value.message
    assert "30" in caught.value.message
    assert "spec.parameters" in caught.value.message


def test_the_size_counts_bytes_and_not_characters() -> None:
    with pytest.raises(LaunchBlocked):
        compile_of(parameters={f"p{number}": "漢" * 30_000 for number in range(3)})


def test_a_config_map_is_read_back_as_it_was_compiled() -> None:
    storage = {"input": krateo({"name": "in"}), "output": {"file": {"claimName": "rows"}}}
    first = compile_of(spec={"storage": storage}, account="a", timeoutSeconds=5)
    again = CompiledRun.read(first.texts, base_name=first.base_name)
    assert again == first


def test_what_another_version_wrote_keeps_its_texts() -> None:
    first = compile_of(spec={"kserve": REFERENCE}, address=ADDRESS)
    theirs = json.dumps({**json.loads(first.snapshot_json), "unknown_here": 1})
    read = CompiledRun.read({**first.texts, "snapshot.json": theirs}, base_name=first.base_name)
    moved = compile_with_model(read, replace(ADDRESS, url="http://b/v2/models/iris/infer"))
    assert [one.texts["snapshot.json"] for one in (read, moved)] == [theirs, theirs]


@pytest.mark.parametrize(
    "data", [{}, {"contract.json": "{}"}, {"contract.json": "{", "snapshot.json": "{}"}]
)
def test_a_config_map_that_is_not_ours_is_an_error(data: dict[str, str]) -> None:
    with pytest.raises((KeyError, ValueError)):
        CompiledRun.read(data, base_name="inf-iris")


def test_the_secrets_of_headers_are_part_of_the_snapshot() -> None:
    source = {"name": "X-Api-Key", "secretKeyRef": {"name": "handler", "key": "key"}}
    api = {"path": "/", "endpointRef": {"name": "handler"}, "headersFrom": [source]}
    snapshot = compiled(
        spec={"storage": {"input": {"krateo": {"api": api}}, "output": {"krateo": {"api": api}}}}
    )
    assert [(one.end, one.index, one.secret, one.key) for one in snapshot.header_secrets] == [
        ("input", 0, "handler", "key"),
        ("output", 0, "handler", "key"),
    ]


def test_the_contract_has_no_secret_value_of_a_header_for_the_model_server() -> None:
    reference = {"secretKeyRef": {"name": "gateway", "key": "api-key"}}
    headers = [
        {"name": "Host", "value": "iris.example"},
        {"name": "api-key", "valueFrom": reference},
    ]
    found = compile_of(
        spec={
            "kserve": {"modelUrl": "http://m", "headers": headers, "proxyUrl": "http://proxy:3128"}
        }
    )
    kserve = json.loads(found.contract_json)["kserve"]
    assert kserve["headers"] == [{"name": "Host", "value": "iris.example"}, {"name": "api-key"}]
    assert kserve["proxyUrl"] == "http://proxy:3128"
    [secret] = found.snapshot.header_secrets
    assert (secret.end, secret.index, secret.secret, secret.key) == (
        "model",
        1,
        "gateway",
        "api-key",
    )


def s3(**more: object) -> dict[str, Any]:
    return {"s3": {"bucket": "data", "path": "in", "credentialsRef": {"name": "keys"}, **more}}


def test_the_audience_of_the_model_servers_token_is_kept() -> None:
    kserve = {"modelUrl": "http://llm", "tokenAudience": "models"}
    snapshot = compiled(spec={"kserve": kserve, "serviceAccountName": "caller"})
    assert (snapshot.token_audiences, snapshot.service_account) == ({"model": "models"}, "caller")
    assert compiled(spec={}).token_audiences == {}


GCS = {
    "gcs": {
        "bucket": "data",
        "path": "in",
        "workloadIdentity": {"audience": "//iam.googleapis.com/pool"},
    }
}
AZURE = {"azure": {"account": "data", "container": "batch", "path": "in"}}
WITH_KEY = {"azure": {**AZURE["azure"], "credentialsRef": {"name": "keys"}}}


@pytest.mark.parametrize(
    ("spec", "audiences", "has_azure_identity"),
    [
        ({}, {"input": "//iam.googleapis.com/pool"}, True),
        ({"storage": {"input": s3(), "output": WITH_KEY}}, {}, False),
        ({"serviceAccountName": None}, {}, False),
        ({"image": "custom:1"}, {}, False),
    ],
)
def test_the_built_in_runner_has_the_identities_of_its_service_account(
    spec: dict[str, Any], audiences: dict[str, str], *, has_azure_identity: bool
) -> None:
    storage = {"input": GCS, "output": AZURE}
    snapshot = compiled(spec={"storage": storage, "serviceAccountName": "caller", **spec})
    assert (snapshot.token_audiences, snapshot.has_azure_identity) == (
        audiences,
        has_azure_identity,
    )


def test_the_secrets_of_s3_and_of_the_model_server_are_mounted() -> None:
    kserve = {
        "modelUrl": "http://llm",
        "protocolVersion": "openai",
        "credentialsRef": {"name": "llm-key"},
    }
    snapshot = compiled(spec={"kserve": kserve, "storage": {"input": s3(), "output": s3()}})
    assert snapshot.endpoints == (
        EndpointSecret(end="input", secret="keys"),
        EndpointSecret(end="output", secret="keys"),
        EndpointSecret(end="model", secret="llm-key"),
    )
    assert snapshot.claims == ()


def test_a_plugin_declares_its_mounts_in_its_storage_object() -> None:
    storage = {
        "input": {"lake": {"claimName": "lake", "credentialsRef": {"name": "lake-key"}}},
        "output": s3(),
    }
    ours = compiled(spec={"image": DEFAULTS.runner_image, "storage": storage})
    assert ours.claims == (MountedClaim(end="input", name="lake"),)
    assert [endpoint.secret for endpoint in ours.endpoints] == ["lake-key", "keys"]


def test_a_custom_image_gets_no_mounts_for_its_own_labels() -> None:
    storage = {
        "input": {"lake": {"claimName": "lake", "credentialsRef": {"name": "k"}}},
        "output": s3(),
    }
    custom = compiled(spec={"image": "custom:1", "storage": storage})
    assert (custom.claims, custom.endpoints) == ((), ())


def test_the_settings_of_requests_are_passed_to_our_runner_only() -> None:
    requests = {
        "maxBatchRecords": 64,
        "targetSeconds": 0,
        "concurrency": 32,
        "timeoutSeconds": 60,
        "duplicates": "SendOnce",
    }
    limits = {
        "INFERRUN_BATCH_ROWS": "64",
        "INFERRUN_DUPLICATES": "SendOnce",
        "INFERRUN_REQUEST_SECONDS": "0",
        "INFERRUN_CONCURRENCY": "32",
        "INFERRUN_REQUEST_TIMEOUT": "60",
    }
    assert compiled(spec={"requests": requests}).limits == limits
    assert compiled(spec={"requests": requests, "image": "custom:1"}).limits == {}


def test_the_limits_of_a_config_are_passed_to_our_runner_only_in_bytes() -> None:
    given = {
        "chunk": "64Ki",
        "record": 1_000_000,
        "window": "128Mi",
        "response": "1M",
        "spool": "10Gi",
    }
    limits = compiled(spec={"limits": given, "requests": {"concurrency": 2}}).limits
    assert limits == {
        "INFERRUN_CHUNK_BYTES": "65536",
        "INFERRUN_RECORD_BYTES": "1000000",
        "INFERRUN_WINDOW_BYTES": "134217728",
        "INFERRUN_RESPONSE_BYTES": "1000000",
        "INFERRUN_SPOOL_BYTES": "10737418240",
        "INFERRUN_CONCURRENCY": "2",
    }
    assert read_settings(limits).limits.chunk_bytes == 65536
    assert compiled(spec={"limits": given, "image": "custom:1"}).limits == {}


@pytest.mark.parametrize("size", [LEAST_SIZE, LARGEST_SIZE])
@pytest.mark.parametrize("limit", ["chunk", "record", "window", "response", "spool"])
def test_the_runner_accepts_every_limit_that_a_config_may_have(limit: str, size: str) -> None:
    size = LEAST_WINDOW if (limit, size) == ("window", LEAST_SIZE) else size
    problems = config_problems(config(limits={limit: size}))
    assert not [problem for problem in problems if problem.field.startswith("spec.limits")]
    assert (
        getattr(
            read_settings(compiled(spec={"limits": {limit: size}}).limits).limits, f"{limit}_bytes"
        )
        >= 1024
    )


ADDRESS = ModelAddress(
    url="http://a/v2/models/iris/infer",
    model_name="iris",
    protocol="v2",
    generation=3,
    revision="r1",
)
REFERENCE = {"serviceRef": {"kind": "InferenceService", "name": "iris"}}


def test_a_later_launch_has_a_config_map_of_its_own_only_if_the_model_has_moved() -> None:
    first = compile_of(spec={"kserve": REFERENCE}, address=ADDRESS)
    assert compile_with_model(first, ADDRESS) is first
    moved = compile_with_model(first, replace(ADDRESS, url="http://b/v2/models/iris/infer"))
    assert (moved.base_name, moved.snapshot_json) == (first.base_name, first.snapshot_json)
    assert moved.config_map.startswith(f"{first.base_name}-m")
    assert (
        moved.config_map
        == compile_with_model(
            first, replace(ADDRESS, url="http://b/v2/models/iris/infer")
        ).config_map
    )
    assert moved.model.model_url == "http://b/v2/models/iris/infer"


def test_a_later_launch_does_not_exceed_the_size_of_a_contract_either() -> None:
    """Whoever may write the status of an object of KServe chooses the certificates in it."""
    first = compile_of(spec={"kserve": REFERENCE}, address=ADDRESS)
    with pytest.raises(LaunchBlocked) as blocked:
        compile_with_model(first, replace(ADDRESS, ca_certificates="x" * 300_000))
    assert blocked.value.reason is Reason.CONTRACT_TOO_LARGE


def test_a_config_with_a_url_never_has_a_model_found_for_it() -> None:
    compiled = compile_of(spec={"modelUrl": "http://m"})
    assert compiled.snapshot.service is None
    assert compile_with_model(compiled, ADDRESS) is compiled


def test_a_certificate_that_the_pods_cannot_mount_is_warned_about() -> None:
    """A Pod can mount only Secrets of its own namespace."""
    own = replace(ADDRESS, ca_secret="iris-certs", warnings=())
    for namespace, warning in (
        (None, ""),
        (
            "elsewhere",
            (
                "the certificate of InferenceService elsewhere/iris is in its Secret iris-certs, which Pods of another namespace "
                "cannot mount; copy the certificate to a ConfigMap in the run's namespace, and name that with spec.caBundle in "
                "the InferenceConfig"
            ),
        ),
    ):
        reference = {"serviceRef": {"name": "iris", "namespace": namespace}}
        compiled = compile_of(spec={"kserve": reference}, address=own)
        assert compiled.service is not None
        assert compiled.service.warning == warning


FILES = {"input": {"file": {"claimName": "data"}}, "output": {"s3": {"bucket": "b"}}}


@pytest.mark.parametrize(
    ("of_run", "of_config", "expected"),
    [(None, None, 1), (None, 5, 5), (3, 5, 3), (1, 5, 1), (4, None, 4)],
)
def test_the_shards_of_the_run_override_those_of_the_config(
    of_run: int | None, of_config: int | None, expected: int
) -> None:
    spec = {"image": None, "storage": FILES, "shards": of_config}
    assert compiled(spec=spec, shards=of_run).shards == expected
    assert compiled(spec=spec, shards=of_run, dryRun=True).shards == 1


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (
            {"image": "mine:1"},
            "requires the built-in runner, but the InferenceConfig names the image 'mine:1'",
        ),
        ({"storage": {**FILES, "input": {"sql": {}}}}, "requires an input of the label file or s3"),
        ({"storage": {**FILES, "output": {"krateo": {}}}}, "spec.storage.output has krateo"),
        ({"canaryRecords": 5}, "not allowed together with spec.canaryRecords (5)"),
    ],
)
def test_a_run_that_cannot_be_divided_is_never_launched(spec: dict[str, Any], why: str) -> None:
    with pytest.raises(LaunchBlocked) as blocked:
        compiled(spec={"image": None, "storage": FILES, **spec}, shards=2)
    assert (blocked.value.reason, blocked.value.is_retryable) == (Reason.INVALID_SPEC, False)
    assert str(blocked.value).startswith('spec.shards is "2"; more than 1 ')
    assert why in str(blocked.value)


def test_the_names_of_the_hosts_of_all_shards_must_fit() -> None:
    spec = {"image": None, "storage": FILES}
    for shards, most in ((64, 43), (10, 44), (2, 44)):
        fitting, too_long = (
            run(metadata={"name": "a" * (most + more)}, shards=shards) for more in (0, 1)
        )
        compile_run(fitting, config(**spec), defaults=DEFAULTS, runner_account="")
        with pytest.raises(LaunchBlocked, match=f"metadata.name of at most {most} characters"):
            compile_run(too_long, config(**spec), defaults=DEFAULTS, runner_account="")
