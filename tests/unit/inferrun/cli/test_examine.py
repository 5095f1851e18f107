"""Every problem of an installation is found and reported with its fix."""

import pytest

from deploy.crds.definitions import inference_config, inference_run
from inferrun.cli.doctor import Question, examine
from inferrun.cli.findings import Finding, State, exit_code, lines, summary
from inferrun.cli.pollers import Poller
from inferrun.cli.programs import Installed
from inferrun.cli.temporal_server import Connected
from inferrun.kube.errors import Unreachable
from inferrun.temporal.connection import TemporalUnavailable
from tests.unit.inferrun.cli.fakes import INSTALLATION, FakeCluster, FakeTemporal, deployment, established, forbidden

QUESTION = Question(install_namespace="inferrun-system", release="inferrun", namespace="models")


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster([inference_config(), inference_run()])


@pytest.fixture
def temporal() -> FakeTemporal:
    return FakeTemporal()


async def examined(cluster: FakeCluster, temporal: FakeTemporal | None) -> list[Finding]:
    async def connect(installed: Installed) -> Connected:
        if temporal is None:
            raise TemporalUnavailable(f"{installed.temporal_address}: Connection refused")
        return Connected(temporal, installed.temporal_address, "default")

    return await examine(QUESTION, cluster, connect)


def the_problem(findings: list[Finding]) -> Finding:
    """The only problem; it has a fix, and the exit code is 1."""
    problems = [finding for finding in findings if finding.state is State.PROBLEM]
    assert len(problems) == 1, problems
    assert problems[0].fix
    assert exit_code(findings) == 1
    return problems[0]


async def test_a_healthy_installation_has_no_problems(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    findings = await examined(cluster, temporal)
    assert {finding.state for finding in findings} == {State.OK}, findings
    assert exit_code(findings) == 0
    assert summary(findings).startswith("no problems")


async def test_an_unreachable_api_server_is_the_only_finding(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    cluster.errors["version"] = Unreachable("GET /version: connection refused")
    findings = await examined(cluster, temporal)
    assert len(findings) == 1
    assert "--kubeconfig" in the_problem(findings).fix


async def test_an_old_kubernetes_version_is_reported(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    cluster.server_version = {"gitVersion": "v1.30.2", "major": "1", "minor": "30+"}
    assert "v1.30.2" in the_problem(await examined(cluster, temporal)).detail


async def test_a_missing_definition_is_reported_with_the_command_that_installs_it(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    del cluster.objects["customresourcedefinitions", "inferenceruns.ai.krateo.io"]
    found = the_problem(await examined(cluster, temporal))
    assert found.what == "definition inferenceruns.ai.krateo.io"
    assert "kubectl apply --server-side" in found.fix


async def test_an_outdated_definition_is_reported_with_the_missing_field(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    old = established(inference_run())
    del old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][
        "pendingTimeoutSeconds"
    ]
    cluster.objects["customresourcedefinitions", "inferenceruns.ai.krateo.io"] = old
    assert "spec.pendingTimeoutSeconds" in the_problem(await examined(cluster, temporal)).detail


async def test_a_definition_without_the_rule_about_outcomes_is_reported(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    other = established(inference_run())
    del other["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]
    cluster.objects["customresourcedefinitions", "inferenceruns.ai.krateo.io"] = other
    assert "outcome" in the_problem(await examined(cluster, temporal)).detail


async def test_a_definition_that_is_not_served_is_reported_with_the_servers_message(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    stored = cluster.objects["customresourcedefinitions", "inferenceconfigs.ai.krateo.io"]
    stored["status"]["conditions"] = [{"type": "NamesAccepted", "status": "False", "message": "icfg is in use"}]
    assert "icfg is in use" in the_problem(await examined(cluster, temporal)).detail


async def test_definitions_that_the_user_may_not_read_are_unknown(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    cluster.errors["customresourcedefinitions"] = forbidden()
    findings = await examined(cluster, temporal)
    assert exit_code(findings) == 0
    assert [finding.state for finding in findings if "definition" in finding.what] == [State.UNKNOWN] * 2


async def test_a_program_that_is_not_installed_is_reported(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    cluster.deployments = [deployment("shim")]
    found = the_problem(await examined(cluster, temporal))
    assert found.what == "worker"
    assert "--install-namespace" in found.fix


async def test_a_program_that_is_not_ready_is_reported_with_the_command_that_shows_its_log(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    cluster.deployments = [deployment("shim", ready=0), deployment("worker")]
    found = the_problem(await examined(cluster, temporal))
    assert "0 of 1" in found.detail
    assert "logs deployment/inferrun-shim" in found.fix


async def test_a_program_that_is_scaled_to_zero_is_reported(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    cluster.deployments = [deployment("shim"), deployment("worker", ready=0, replicas=0)]
    assert "--replicas=1" in the_problem(await examined(cluster, temporal)).fix


async def test_an_invalid_setting_is_reported_with_its_name(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    cluster.objects["configmaps", "inferrun-config"] = {"data": {"backoffLimit": "many"}}
    assert "backoffLimit" in the_problem(await examined(cluster, temporal)).detail


async def test_a_missing_permission_of_the_user_is_reported(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    cluster.errors["subjectaccessreviews"] = forbidden()
    cluster.denied = {"create inferenceruns"}
    found = the_problem(await examined(cluster, temporal))
    assert "create inferenceruns" in found.detail
    assert "models" in found.what


async def test_a_missing_permission_of_a_program_is_reported(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    cluster.denied = {"delete pods"}
    found = the_problem(await examined(cluster, temporal))
    assert "inferrun-worker" in found.what
    assert "delete pods" in found.detail


async def test_a_missing_permission_for_the_leases_is_reported_for_both_programs(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    cluster.denied = {"create leases"}
    found = [finding for finding in await examined(cluster, temporal) if finding.state is State.PROBLEM]
    assert [finding.what.split()[-4] for finding in found] == ["inferrun-shim", "inferrun-worker"]
    assert all("create leases.coordination.k8s.io" in finding.detail for finding in found)


async def test_permissions_are_checked_in_the_watched_namespace(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    cluster.deployments = [deployment("shim", watch="team-a"), deployment("worker", watch="team-a")]
    await examined(cluster, temporal)
    reviews = [body["spec"] for body in cluster.asked if body["kind"] == "SubjectAccessReview"]
    leases = [review for review in reviews if review["resourceAttributes"]["resource"] == "leases"]
    others = [review for review in reviews if review not in leases]
    assert {review["resourceAttributes"]["namespace"] for review in others} == {"team-a"}
    assert {review["resourceAttributes"]["namespace"] for review in leases} == {"inferrun-system"}


async def test_permissions_are_checked_in_each_watched_namespace(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    listed = "team-a,team-b"
    cluster.deployments = [deployment("shim", watch=listed), deployment("worker", watch=listed)]
    await examined(cluster, temporal)
    reviews = [body["spec"] for body in cluster.asked if body["kind"] == "SubjectAccessReview"]
    for account in ("inferrun-shim", "inferrun-worker"):
        places = {
            review["resourceAttributes"]["namespace"]
            for review in reviews
            if review["user"].endswith(account) and review["resourceAttributes"]["resource"] != "leases"
        }
        assert places == {"team-a", "team-b"}
    assert {review["user"] for review in reviews} == {
        "system:serviceaccount:inferrun-system:inferrun-shim",
        "system:serviceaccount:inferrun-system:inferrun-worker",
    }


async def test_an_unreachable_temporal_server_is_reported_with_its_address(cluster: FakeCluster) -> None:
    found = the_problem(await examined(cluster, None))
    assert "temporal.example:7233" in found.detail
    assert "TEMPORAL_ADDRESS" in found.fix


async def test_a_missing_temporal_namespace_ends_the_checks_of_temporal(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    temporal.namespace_exists = False
    assert "namespace create -n default" in the_problem(await examined(cluster, temporal)).fix
    assert temporal.asked == []


async def test_a_missing_search_attribute_is_reported_with_the_command_that_creates_it(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    del temporal.attributes["InferrunRun"]
    assert "--name InferrunRun --type Keyword" in the_problem(await examined(cluster, temporal)).fix


async def test_a_search_attribute_of_the_wrong_type_is_reported(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    temporal.attributes["InferrunRun"] = "Text"
    assert "InferrunRun" in the_problem(await examined(cluster, temporal)).detail


async def test_search_attributes_that_cannot_be_listed_are_unknown(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    temporal.attributes_error = TemporalUnavailable("not here")
    assert exit_code(await examined(cluster, temporal)) == 0


async def test_the_task_queues_of_the_installation_are_checked(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    await examined(cluster, temporal)
    assert temporal.asked == [("batch", "workflows"), ("batch", "activities")]


@pytest.mark.parametrize(
    "workers",
    [[], [Poller(f"inferrun/{INSTALLATION}/dead", 200.0)]],
    ids=["none", "one that has not polled for minutes"],
)
async def test_a_queue_without_live_workers_is_reported(
    cluster: FakeCluster, temporal: FakeTemporal, workers: list[Poller]
) -> None:
    temporal.workers["batch"] = workers
    problems = [found for found in await examined(cluster, temporal) if found.state is State.PROBLEM]
    assert ["batch (workflows)" in problems[0].what, "batch (activities)" in problems[1].what] == [True, True]
    assert all("component=worker" in found.fix for found in problems)


async def test_a_worker_of_another_installation_is_reported(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    ours, other = Poller(f"inferrun/{INSTALLATION}/a", 1.0), Poller("inferrun/other.cluster/b", 1.0)
    temporal.workers["batch"] = [ours, other]
    problems = [found for found in await examined(cluster, temporal) if found.state is State.PROBLEM]
    assert len(problems) == 2
    assert all("inferrun/other.cluster/b" in found.detail and "taskQueue" in found.fix for found in problems)


def test_a_fix_of_two_lines_is_aligned() -> None:
    printed = list(lines([Finding(State.PROBLEM, "x", "is broken", "do this\nthen that")]))
    assert printed == ["PROBLEM  x: is broken", "         fix: do this", "              then that"]


@pytest.mark.parametrize(
    ("own", "others", "where"),
    [
        ("", "", "all namespaces"),
        ("", "team-a", "team-a"),
        ("team-a,team-b", "", "team-a, team-b"),
        ("team-a,team-b", "team-b,team-c", "namespaces team-b"),
    ],
)
async def test_another_installation_that_serves_the_same_namespaces_is_reported(
    cluster: FakeCluster, temporal: FakeTemporal, own: str, others: str, where: str
) -> None:
    cluster.deployments = [deployment(name, watch=own) for name in ("shim", "worker")]
    cluster.other_shims = [deployment("shim", watch=others, namespace="team-b-system", release="second")]
    found = the_problem(await examined(cluster, temporal))
    assert where in found.what
    assert "release second in namespace team-b-system" in found.detail
    assert "watchNamespace" in found.fix


async def test_another_installation_that_serves_other_namespaces_is_no_problem(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    cluster.deployments = [deployment(name, watch="team-a") for name in ("shim", "worker")]
    cluster.other_shims = [deployment("shim", watch="team-b", namespace="team-b-system")]
    assert exit_code(await examined(cluster, temporal)) == 0
