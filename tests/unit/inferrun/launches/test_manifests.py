"""The ConfigMap and the Jobs of a run."""

# ruff: noqa: S108 -- these paths are the contract with every runner image

import json
from typing import Any

import pytest

from inferrun.launches import manifests
from inferrun.launches.pod_limits import deadline_margin
from inferrun.launches.pod_mounts import (
    EndpointSecret,
    HeaderSecret,
    MountedClaim,
    MountedKey,
    SecretEnd,
)
from inferrun.launches.snapshot import CompiledRun, WantedService
from inferrun.resources.placement import Placement
from tests.unit.objects import RUN, UID, Json, snapshot


def compiled(**changes: Any) -> CompiledRun:
    return CompiledRun("inf-iris-5be07ada", '{"jobName":"inf-iris-5be07ada"}', snapshot(**changes))


def job_of(
    *, launch: int = 1, attempt: int = 1, seconds_left: int | None = None, **changes: Any
) -> Json:
    return manifests.job(
        RUN,
        compiled(**changes),
        installation="inferrun.cluster-uid",
        launch=launch,
        attempt=attempt,
        seconds_left=seconds_left,
    )


def pod_of(**changes: Any) -> Json:
    spec: Json = job_of(**changes)["spec"]["template"]["spec"]
    return spec


def container_of(**changes: Any) -> Json:
    container: Json
    [container] = pod_of(**changes)["containers"]
    return container


def environment_of(**changes: Any) -> dict[str, Any]:
    return {
        entry["name"]: entry.get("value", entry.get("valueFrom"))
        for entry in container_of(**changes)["env"]
    }


def test_a_job_is_owned_by_its_run_and_labelled() -> None:
    body = job_of(launch=3, attempt=2)
    assert body["metadata"]["name"] == "inf-iris-5be07ada-3"
    assert body["metadata"]["ownerReferences"][0]["uid"] == UID
    wanted = {
        "app.kubernetes.io/managed-by": "inferrun",
        "inferrun.dev/installation": "inferrun.cluster-uid",
        "inferrun.dev/run-uid": UID,
        "inferrun.dev/launch": "3",
        "inferrun.dev/attempt": "2",
    }
    assert body["metadata"]["labels"] == {**wanted, **manifests.HELD}
    assert body["spec"]["template"]["metadata"]["labels"] == wanted


def test_the_job_runs_one_pod_at_a_time_and_leaves_retries_to_the_workflow() -> None:
    spec = job_of()["spec"]
    assert (spec["completions"], spec["parallelism"], spec["backoffLimit"]) == (1, 0, 0)
    assert spec["podReplacementPolicy"] == "Failed"
    [rule] = spec["podFailurePolicy"]["rules"]
    assert rule == {
        "action": "Ignore",
        "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
    }
    assert "activeDeadlineSeconds" not in spec
    assert "ttlSecondsAfterFinished" not in spec


@pytest.mark.parametrize("image", [{}, {"is_our_runner": False, "image": "foreign:1"}])
def test_the_pod_complies_with_the_restricted_pod_security_standard(image: dict[str, Any]) -> None:
    pod, container = pod_of(**image), container_of(**image)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    allowed = {"emptyDir", "configMap", "secret", "persistentVolumeClaim"}
    assert {kind for volume in pod["volumes"] for kind in volume if kind != "name"} <= allowed
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)


def test_the_cluster_may_assign_user_and_group() -> None:
    assert pod_of(run_as_user=None, has_fixed_group=False)["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_the_pod_runs_as_the_configs_user() -> None:
    assert pod_of(run_as_user=1000)["securityContext"]["runAsUser"] == 1000


def test_without_a_service_account_there_is_no_token() -> None:
    assert pod_of()["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod_of()
    with_account = pod_of(service_account="runner")
    assert (with_account["serviceAccountName"], with_account["automountServiceAccountToken"]) == (
        "runner",
        True,
    )


def test_the_pod_is_never_restarted_and_has_a_grace_period_of_ten_seconds() -> None:
    pod = pod_of()
    assert (pod["restartPolicy"], pod["terminationGracePeriodSeconds"]) == ("Never", 10)


def test_the_pods_active_deadline_is_the_time_left_plus_a_margin() -> None:
    assert pod_of(seconds_left=50, deadline_margin_seconds=5)["activeDeadlineSeconds"] == 55
    assert "activeDeadlineSeconds" not in pod_of(seconds_left=None)


def test_the_seconds_left_are_passed_to_the_runner_and_annotated_on_the_job() -> None:
    assert environment_of(seconds_left=50)["INFERRUN_SECONDS_LEFT"] == "50"
    assert job_of(seconds_left=50)["metadata"]["annotations"]["inferrun.dev/seconds-left"] == "50"
    assert "INFERRUN_SECONDS_LEFT" not in environment_of()
    assert "inferrun.dev/seconds-left" not in job_of()["metadata"]["annotations"]


def test_values_that_differ_between_jobs_are_in_the_environment() -> None:
    variables = environment_of(launch=4, attempt=2)
    assert (variables["INFERRUN_LAUNCH"], variables["INFERRUN_ATTEMPT"]) == ("4", "2")
    assert variables["pod_uid"] == {"fieldRef": {"fieldPath": "metadata.uid"}}


def test_only_our_runner_gets_the_lists_of_addresses() -> None:
    lists = {
        "allowed_addresses": ("10.0.0.1:80",),
        "refused_addresses": ("temporal:7233", "10.96.0.1:443"),
    }
    ours = environment_of(image="own:1", is_our_runner=True, **lists)
    assert ours["INFERRUN_ALLOWED_ADDRESSES"] == "10.0.0.1:80"
    assert ours["INFERRUN_REFUSED_ADDRESSES"] == "temporal:7233,10.96.0.1:443"
    assert "INFERRUN_REFUSED_ADDRESSES" not in environment_of(is_our_runner=False, **lists)


def test_only_our_runner_gets_a_home() -> None:
    assert environment_of()["HOME"] == "/tmp"
    foreign = environment_of(is_our_runner=False)
    assert not {"HOME", "INFERRUN_POST_LIMIT_BYTES"} & set(foreign)


def test_the_contract_is_one_file_in_a_tmp_that_stays_writable() -> None:
    pod, container = pod_of(), container_of()
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert mounts["/tmp/contract.json"]["subPath"] == "contract.json"
    assert mounts["/tmp/contract.json"]["readOnly"] is True
    assert not mounts["/tmp"].get("readOnly")
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes[mounts["/tmp"]["name"]]["emptyDir"] == {}
    contract = volumes[mounts["/tmp/contract.json"]["name"]]["configMap"]
    assert contract["name"] == "inf-iris-5be07ada"
    assert contract["items"] == [{"key": "contract.json", "path": "contract.json"}]


def test_tmp_has_a_size_limit_and_the_root_file_system_is_read_only_on_request() -> None:
    made = container_of(tmp_size="1Gi", is_root_read_only=True)
    assert made["securityContext"]["readOnlyRootFilesystem"] is True
    assert "readOnlyRootFilesystem" not in container_of()["securityContext"]
    volumes = {volume["name"]: volume for volume in pod_of(tmp_size="1Gi")["volumes"]}
    assert volumes["tmp"]["emptyDir"] == {"sizeLimit": "1Gi"}


@pytest.mark.parametrize(("ours", "optional"), [(True, False), (False, True)])
def test_a_secret_is_optional_for_custom_images_only(*, ours: bool, optional: bool) -> None:
    ends = (EndpointSecret(end="input", secret="in"), EndpointSecret(end="output", secret="out"))
    pod, container = (made(endpoints=ends, is_our_runner=ours) for made in (pod_of, container_of))
    secrets = {volume["name"]: volume["secret"] for volume in pod["volumes"] if "secret" in volume}
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    for end, name in (("input", "in"), ("output", "out")):
        mount = mounts[f"/etc/inferrun/endpoints/{end}"]
        assert mount["readOnly"] is True
        assert secrets[mount["name"]]["secretName"] == name
        assert secrets[mount["name"]]["optional"] is optional


@pytest.mark.parametrize(
    ("end", "secrets"), [("model", []), ("model", ["keys"]), ("input", []), ("output", [])]
)
def test_a_token_of_the_service_account_is_mounted_for_an_end(
    end: SecretEnd, secrets: list[str]
) -> None:
    ends = tuple(EndpointSecret(end=end, secret=name) for name in secrets)
    asked: dict[str, Any] = {
        "token_audiences": {end: "models"},
        "service_account": "caller",
        "endpoints": ends,
    }  # Any: fields
    (volume,) = [one for one in pod_of(**asked)["volumes"] if one["name"] == f"endpoint-{end}"]
    *mounted, token = volume["projected"]["sources"]
    assert [one["secret"]["name"] for one in mounted] == secrets
    assert token == {
        "serviceAccountToken": {"audience": "models", "expirationSeconds": 3600, "path": "token"}
    }
    mounts = [
        one for one in container_of(**asked)["volumeMounts"] if one["name"] == f"endpoint-{end}"
    ]
    assert mounts == [
        {"name": f"endpoint-{end}", "mountPath": f"/etc/inferrun/endpoints/{end}", "readOnly": True}
    ]


def test_one_claim_for_input_and_output_is_one_volume_mounted_twice() -> None:
    claims = (MountedClaim(end="input", name="rows"), MountedClaim(end="output", name="rows"))
    pod, container = pod_of(claims=claims), container_of(claims=claims)
    volumes = [volume for volume in pod["volumes"] if "persistentVolumeClaim" in volume]
    assert [volume["persistentVolumeClaim"] for volume in volumes] == [{"claimName": "rows"}]
    mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
    assert mounts["/data/input"]["name"] == mounts["/data/output"]["name"] == volumes[0]["name"]
    assert (mounts["/data/input"]["readOnly"], mounts["/data/output"]["readOnly"]) == (True, False)


def test_two_claims_are_two_volumes() -> None:
    pod = pod_of(
        claims=(MountedClaim(end="input", name="rows"), MountedClaim(end="output", name="results"))
    )
    claims = [
        volume["persistentVolumeClaim"]
        for volume in pod["volumes"]
        if "persistentVolumeClaim" in volume
    ]
    assert claims == [{"claimName": "rows"}, {"claimName": "results"}]


def test_a_pod_with_claims_may_write_to_them() -> None:
    security = pod_of(claims=(MountedClaim(end="output", name="rows"),))["securityContext"]
    assert (security["fsGroup"], security["fsGroupChangePolicy"]) == (65532, "OnRootMismatch")
    assert "fsGroup" not in pod_of()["securityContext"]


@pytest.mark.parametrize(("ours", "policy"), [(True, "FallbackToLogsOnError"), (False, "File")])
def test_the_log_of_a_custom_image_is_not_used_as_its_termination_message(
    *, ours: bool, policy: str
) -> None:
    assert container_of(is_our_runner=ours)["terminationMessagePolicy"] == policy


def test_image_pull_settings_come_from_the_config() -> None:
    pod = pod_of(pull_secret="pull", image_pull_policy="Never")
    assert pod["imagePullSecrets"] == [{"name": "pull"}]
    assert pod["containers"][0]["imagePullPolicy"] == "Never"
    assert "imagePullSecrets" not in pod_of()
    assert "imagePullPolicy" not in container_of()


def test_resources_come_from_the_config() -> None:
    assert container_of(resources={"limits": {"memory": "1Gi"}})["resources"] == {
        "limits": {"memory": "1Gi"}
    }


def test_queue_labels_are_on_the_job_and_cannot_override_ours() -> None:
    labels = {"kueue.x-k8s.io/priority-class": "high", "inferrun.dev/run-uid": "forged"}
    metadata = job_of(labels=labels)["metadata"]
    assert metadata["labels"]["kueue.x-k8s.io/priority-class"] == "high"
    assert metadata["labels"]["inferrun.dev/run-uid"] == UID


def verify_job_of(*, is_final: bool = False, **changes: Any) -> Json:
    return manifests.verify_job(
        RUN, compiled(**changes), installation="here", launch=2, attempt=1, is_final=is_final
    )


def test_a_verifying_job_mounts_the_output_only() -> None:
    both = (MountedClaim(end="input", name="data"), MountedClaim(end="output", name="results"))
    spec = verify_job_of(claims=both)["spec"]["template"]["spec"]
    paths = [mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]]
    assert paths == ["/tmp", "/tmp/contract.json", "/data/output"]
    assert spec["securityContext"]["fsGroup"] == 65532
    assert spec["restartPolicy"] == "Never"


def test_a_verifying_job_has_no_credentials_for_the_model_server() -> None:
    ends = (EndpointSecret(end="model", secret="keys"),)
    headers = (HeaderSecret(end="model", index=0, secret="keys", key="api-key"),)
    made = verify_job_of(
        token_audiences={"model": "models"},
        service_account="caller",
        endpoints=ends,
        header_secrets=headers,
    )
    spec = made["spec"]["template"]["spec"]
    assert all("projected" not in volume for volume in spec["volumes"])
    assert "endpoint-model" not in {
        mount["name"] for mount in spec["containers"][0]["volumeMounts"]
    }


def test_a_verifying_job_has_the_identities_for_the_output_only() -> None:
    audiences = {"input": "in", "output": "out", "model": "models"}
    made = verify_job_of(
        token_audiences=audiences, service_account="caller", has_azure_identity=True
    )
    template = made["spec"]["template"]
    tokens = [
        one["projected"]["sources"][0] for one in template["spec"]["volumes"] if "projected" in one
    ]
    assert [one["serviceAccountToken"]["audience"] for one in tokens] == ["out"]
    assert template["metadata"]["labels"]["azure.workload.identity/use"] == "true"


@pytest.mark.parametrize("is_set", [True, False])
def test_azures_webhook_is_asked_for_an_identity(*, is_set: bool) -> None:
    job = job_of(service_account="caller", has_azure_identity=is_set)
    assert (
        "azure.workload.identity/use" in job["spec"]["template"]["metadata"]["labels"]
    ) == is_set
    assert "azure.workload.identity/use" not in job["metadata"]["labels"]


def test_a_verifying_job_has_the_identity_of_a_launch_but_no_queue_and_no_accelerator() -> None:
    limits = {"limits": {"memory": "1Gi", "nvidia.com/gpu": "1"}}
    made = verify_job_of(
        resources=limits, labels={"kueue.x-k8s.io/queue-name": "q"}, service_account="reader"
    )
    spec = made["spec"]["template"]["spec"]
    assert spec["serviceAccountName"] == "reader"
    assert spec["containers"][0]["resources"] == {"limits": {"memory": "1Gi"}}
    assert "kueue.x-k8s.io/queue-name" not in made["metadata"]["labels"]
    assert made["metadata"]["labels"]["inferrun.dev/launch"] == "2"
    assert made["metadata"]["annotations"]["inferrun.dev/runner"] == "verify"
    assert made["metadata"]["ownerReferences"] == [manifests.owner_reference(RUN)]


def test_a_verifying_job_is_bounded_gets_no_pod_before_it_is_started_and_cleans_up_after_itself() -> (
    None
):
    spec = verify_job_of()["spec"]
    assert (spec["completions"], spec["parallelism"]) == (1, 0)
    assert (
        spec["activeDeadlineSeconds"],
        spec["ttlSecondsAfterFinished"],
        spec["backoffLimit"],
    ) == (300, 600, 3)


@pytest.mark.parametrize("is_final", [True, False])
def test_only_the_final_verification_aborts_the_run(*, is_final: bool) -> None:
    command = verify_job_of(is_final=is_final)["spec"]["template"]["spec"]["containers"][0][
        "command"
    ]
    assert command[:3] == ["python", "-m", "inferrun_runner.verify"]
    assert ("--final" in command) is is_final


def test_header_values_are_mounted_from_the_keys_of_their_secrets() -> None:
    secrets = (
        HeaderSecret(end="input", index=0, secret="one", key="token"),
        HeaderSecret(end="input", index=1, secret="two", key="token"),
    )
    pod = pod_of(header_secrets=secrets)
    volume = next(volume for volume in pod["volumes"] if volume["name"] == "headers-input")
    assert [source["secret"]["name"] for source in volume["projected"]["sources"]] == ["one", "two"]
    assert volume["projected"]["sources"][1]["secret"]["items"] == [{"key": "token", "path": "1"}]
    mount = next(
        mount for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == "headers-input"
    )
    assert (mount["mountPath"], mount["readOnly"]) == (
        "/etc/inferrun/endpoints/input-headers",
        True,
    )


def test_the_init_container_does_not_see_the_header_values_for_the_model_server() -> None:
    secrets = (HeaderSecret(end="model", index=1, secret="gateway", key="api-key"),)
    pod = pod_of(header_secrets=secrets, warm_up_limit=60, warm_up_image="runner:1")
    main, first = pod["containers"][0], pod["initContainers"][0]
    mount = next(mount for mount in main["volumeMounts"] if mount["name"] == "headers-model")
    assert mount["mountPath"] == "/etc/inferrun/endpoints/model-headers"
    assert "headers-model" not in {mount["name"] for mount in first["volumeMounts"]}


def test_a_pod_that_waits_for_days_is_replaced_less_and_less_often() -> None:
    limits = [deadline_margin(snapshot(), waits=waits) for waits in (0, 1, 2, 8, 100)]
    assert limits == [600, 1200, 2400, 86_400, 86_400]
    assert deadline_margin(snapshot(deadline_margin_seconds=100_000), waits=9) == 100_000


SERVICE = WantedService(kind="InferenceService", namespace="models", name="iris")


def job_with_model(
    *, model: Json | None = None, seconds_left: int | None = None, **changes: Any
) -> Json:
    """A Job of a run whose model an object of KServe serves."""
    found = {"kind": "InferenceService", "namespace": "models", "name": "iris", **(model or {})}
    contract = {"kserve": {"modelUrl": "http://m/v2/models/iris/infer", "service": found}}
    defaults: Json = {"service": SERVICE, "warm_up_limit": 600, "warm_up_image": "runner:1"}
    run = CompiledRun("inf-iris", json.dumps(contract), snapshot(**{**defaults, **changes}))
    return manifests.job(RUN, run, installation="i", launch=1, attempt=1, seconds_left=seconds_left)


def spec_with_model(**changes: Any) -> Json:
    spec: Json = job_with_model(**changes)["spec"]["template"]["spec"]
    return spec


def test_a_model_of_kserve_is_waited_for_by_an_init_container_with_our_image() -> None:
    resources = {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
    [warm_up] = spec_with_model(image="custom:7", is_our_runner=False, resources=resources)[
        "initContainers"
    ]
    assert (warm_up["name"], warm_up["image"]) == ("warm-up", "runner:1")
    assert warm_up["command"] == ["python", "-m", "inferrun_runner.warm_up"]
    assert warm_up["resources"] == {"requests": {"cpu": "1"}}
    assert {"name": "INFERRUN_WARM_UP_SECONDS", "value": "600"} in warm_up["env"]
    assert [mount["mountPath"] for mount in warm_up["volumeMounts"]] == [
        "/tmp",
        "/tmp/contract.json",
    ]
    assert warm_up["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_the_wait_for_the_model_is_not_part_of_the_runs_time() -> None:
    spec = spec_with_model(seconds_left=50, deadline_margin_seconds=5)
    assert spec["activeDeadlineSeconds"] == 655
    [container] = spec["containers"]
    assert {"name": "INFERRUN_SECONDS_LEFT", "value": "50"} in container["env"]


def test_a_model_with_a_url_has_neither_an_init_container_nor_limits_of_its_own() -> None:
    assert "initContainers" not in pod_of()
    assert "INFERRUN_START_CONCURRENCY" not in environment_of()


@pytest.mark.parametrize(
    ("model", "limits", "expected"),
    [
        ({}, {}, {"START_CONCURRENCY": "1"}),
        ({"concurrency": 6}, {}, {"START_CONCURRENCY": "6"}),
        (
            {"concurrency": 6},
            {"INFERRUN_CONCURRENCY": "2"},
            {"START_CONCURRENCY": "1", "CONCURRENCY": "2"},
        ),
        ({"requestSeconds": 60}, {}, {"START_CONCURRENCY": "1", "REQUEST_TIMEOUT": "54"}),
        (
            {"requestSeconds": 60},
            {"INFERRUN_REQUEST_TIMEOUT": "20"},
            {"START_CONCURRENCY": "1", "REQUEST_TIMEOUT": "20"},
        ),
        (
            {"requestSeconds": 60},
            {"INFERRUN_REQUEST_TIMEOUT": "90"},
            {"START_CONCURRENCY": "1", "REQUEST_TIMEOUT": "54"},
        ),
        ({"requestSeconds": 3600}, {}, {"START_CONCURRENCY": "1"}),
    ],
)
def test_the_runners_limits_follow_those_of_the_object(
    model: Json, limits: Json, expected: Json
) -> None:
    [container] = spec_with_model(model=model, limits=limits)["containers"]
    found = {entry["name"]: entry.get("value") for entry in container["env"]}
    names = ("START_CONCURRENCY", "CONCURRENCY", "REQUEST_TIMEOUT")
    assert {
        name: found[f"INFERRUN_{name}"] for name in names if f"INFERRUN_{name}" in found
    } == expected


def test_a_models_own_certificate_is_mounted_if_its_secret_can_be() -> None:
    model = {"caSecret": "tiny-certs"}
    spec = spec_with_model(model=model)
    assert {"name": "model-ca", "secret": manifest_of_secret("tiny-certs")} in spec["volumes"]
    for container in (*spec["containers"], *spec["initContainers"]):
        assert "/etc/inferrun/endpoints/model-ca" in [
            mount["mountPath"] for mount in container["volumeMounts"]
        ]
    elsewhere = spec_with_model(
        model=model, service=SERVICE.model_copy(update={"is_at_home": False})
    )
    assert "model-ca" not in [volume["name"] for volume in elsewhere["volumes"]]


@pytest.mark.parametrize("is_our_runner", [True, False])
def test_a_ca_bundle_is_mounted_in_every_container_of_the_run(*, is_our_runner: bool) -> None:
    given = {
        "ca_bundle": MountedKey(config_map="authorities", key="cabundle.crt"),
        "is_our_runner": is_our_runner,
    }
    run = CompiledRun(
        "inf-iris", "{}", snapshot(warm_up_limit=600, warm_up_image="runner:1", **given)
    )
    body = manifests.job(RUN, run, installation="i", launch=1, attempt=1, seconds_left=None)
    verify = manifests.verify_job(RUN, run, installation="i", launch=1, attempt=1, is_final=True)
    source = {"name": "authorities", "items": [{"key": "cabundle.crt", "path": "ca.crt"}]}
    for spec in (body["spec"]["template"]["spec"], verify["spec"]["template"]["spec"]):
        assert {"name": "ca-bundle", "configMap": source} in spec["volumes"]
        for container in (*spec["containers"], *spec.get("initContainers", ())):
            mounted = [mount for mount in container["volumeMounts"] if mount["name"] == "ca-bundle"]
            assert mounted == [
                {"name": "ca-bundle", "mountPath": "/etc/inferrun/ca-bundle", "readOnly": True}
            ]
            assert {
                "name": "INFERRUN_CA_BUNDLE",
                "value": "/etc/inferrun/ca-bundle/ca.crt",
            } in container["env"]


def test_a_system_message_is_mounted_where_the_runner_reads_it_and_not_in_a_verification() -> None:
    prompt = MountedKey(config_map="prompts", key="sort.txt")
    spec = job_of(system_prompt=prompt)["spec"]["template"]["spec"]
    source = {"name": "prompts", "items": [{"key": "sort.txt", "path": "system"}]}
    assert {"name": "system-prompt", "configMap": source} in spec["volumes"]
    (container,) = spec["containers"]
    mount = {
        "name": "system-prompt",
        "mountPath": "/etc/inferrun/endpoints/request",
        "readOnly": True,
    }
    assert mount in container["volumeMounts"]
    verify = verify_job_of(system_prompt=prompt)["spec"]["template"]["spec"]
    assert "system-prompt" not in [volume["name"] for volume in verify["volumes"]]


def manifest_of_secret(name: str) -> Json:
    return {
        "secretName": name,
        "optional": True,
        "items": [{"key": "ca.crt", "path": "ca.crt"}, {"key": "tls.crt", "path": "tls.crt"}],
        "defaultMode": 0o444,
    }


def test_the_verification_of_an_output_does_not_wait_for_a_model() -> None:
    run = CompiledRun(
        "inf-iris", "{}", snapshot(service=SERVICE, warm_up_limit=600, warm_up_image="runner:1")
    )
    body = manifests.verify_job(RUN, run, installation="i", launch=1, attempt=1, is_final=False)
    assert "initContainers" not in body["spec"]["template"]["spec"]


def test_a_run_of_one_shard_has_the_job_of_a_run_without_the_field() -> None:
    assert job_of(shards=1) == job_of()
    assert json.loads(compiled(shards=2).snapshot_json)["shards"] == 2


def test_several_shards_are_an_indexed_job_that_ends_with_the_first_success() -> None:
    spec = job_of(shards=3, backoff_limit=4)["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 0)
    assert spec["successPolicy"] == {"rules": [{"succeededCount": 1}]}
    assert (spec["backoffLimitPerIndex"], spec["backoffLimit"]) == (4, 2**31 - 1)
    disrupted, reported = spec["podFailurePolicy"]["rules"]
    assert disrupted["action"] == "Ignore"
    assert reported == {
        "action": "FailIndex",
        "onExitCodes": {
            "containerName": "inference",
            "operator": "In",
            "values": [1, 2, 3, 4, 5, 6],
        },
    }
    assert environment_of(shards=3)["INFERRUN_SHARDS"] == "3"


def test_only_one_pod_verifies_the_output_of_several_shards() -> None:
    job = manifests.verify_job(
        RUN, compiled(shards=3), installation="i", launch=1, attempt=1, is_final=False
    )
    assert job["spec"]["completions"] == 1
    assert "completionMode" not in job["spec"]


PLACED: Json = {
    "nodeSelector": {"pool": "spot"},
    "tolerations": [{"key": "pool", "operator": "Exists"}],
    "affinity": {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "preference": {
                        "matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]
                    },
                }
            ]
        }
    },
    "priorityClassName": "low",
    "runtimeClassName": "gvisor",
}
SPREAD: Json = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}


def test_pods_are_placed_where_the_config_says_and_so_is_the_verification_of_their_output() -> None:
    placement = Placement.model_validate({**PLACED, "topologySpreadConstraints": [SPREAD]})
    for body in (job_of(placement=placement), verify_job_of(placement=placement, shards=2)):
        spec = body["spec"]["template"]["spec"]
        assert spec.items() >= PLACED.items()
        assert "topologySpreadConstraints" not in spec
    assert PLACED.keys().isdisjoint(pod_of())


def test_only_the_pods_of_the_run_are_counted_when_its_shards_are_spread() -> None:
    placement = Placement.model_validate({"topologySpreadConstraints": [SPREAD, SPREAD]})
    template = job_of(placement=placement, shards=2)["spec"]["template"]
    selector = {"matchLabels": {"inferrun.dev/run-uid": UID}}
    assert (
        template["spec"]["topologySpreadConstraints"] == [{**SPREAD, "labelSelector": selector}] * 2
    )
    assert template["metadata"]["labels"].items() >= selector["matchLabels"].items()
