"""Each thing that can be wrong with an installation is found and comes with its cure."""

import pytest

from deploy.crds.definitions import inference_config, inference_run
from inferrun.cli.doctor import Question, examine
from inferrun.cli.findings import Finding, State, exit_code, lines, summary
from inferrun.cli.pollers import Poller
from inferrun.cli.programs import Installed
from inferrun.cli.temporal_server import Connected, Refused, Unreachable
from inferrun.kube.errors import Unreachable as NoApiServer
from tests.unit.inferrun.cli.fakes import INSTALLATION, FakeCluster, FakeTemporal, deployment, established, forbidden

QUESTION = Question(
    kubeconfig=None, context=None, install_namespace="inferrun-system", release="inferrun", namespace="models"
)


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster([inference_config(), inference_run()])


@pytest.fixture
def temporal() -> FakeTemporal:
    return FakeTemporal()


async def look(cluster: FakeCluster, temporal: FakeTemporal | None) -> list[Finding]:
    async def connect(installed: Installed) -> Connected:
        if temporal is None:
            raise Unreachable(f"{installed.temporal_address}: Connection refused")
        return Connected(temporal, installed.temporal_address, "default")

    return await examine(QUESTION, cluster, connect)


def the_problem(findings: list[Finding]) -> Finding:
    """The one problem that was found; it has a cure, and the exit code says so."""
    problems = [finding for finding in findings if finding.state is State.PROBLEM]
    assert len(problems) == 1, problems
    assert problems[0].cure
    assert exit_code(findings) == 1
    return problems[0]


async def test_a_healthy_installation_has_no_problem(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    findings = await look(cluster, temporal)
    assert {finding.state for finding in findings} == {State.OK}, findings
    assert exit_code(findings) == 0
    assert summary(findings).startswith("nothing is wrong")


async def test_an_api_server_that_does_not_answer_is_the_only_finding(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    cluster.errors["version"] = NoApiServer("GET /version: connection refused")
    findings = await look(cluster, temporal)
    assert len(findings) == 1
    assert "--kubeconfig" in the_problem(findings).cure


async def test_an_old_kubernetes_is_told(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    cluster.server_version = {"gitVersion": "v1.30.2", "major": "1", "minor": "30+"}
    assert "v1.30.2" in the_problem(await look(cluster, temporal)).detail


async def test_a_missing_definition_is_told_with_the_command_that_installs_it(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    del cluster.objects["customresourcedefinitions", "inferenceruns.ai.krateo.io"]
    found = the_problem(await look(cluster, temporal))
    assert found.what == "definition inferenceruns.ai.krateo.io"
    assert "kubectl apply --server-side" in found.cure


async def test_a_definition_that_an_older_chart_left_is_told_with_its_missing_field(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    old = established(inference_run())
    del old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"][
        "pendingTimeoutSeconds"
    ]
    cluster.objects["customresourcedefinitions", "inferenceruns.ai.krateo.io"] = old
    assert "spec.pendingTimeoutSeconds" in the_problem(await look(cluster, temporal)).detail


async def test_a_definition_without_the_rule_on_outcomes_is_told(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    other = established(inference_run())
    del other["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"]
    cluster.objects["customresourcedefinitions", "inferenceruns.ai.krateo.io"] = other
    assert "outcome" in the_problem(await look(cluster, temporal)).detail


async def test_a_definition_that_is_not_served_is_told_in_the_servers_words(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    stored = cluster.objects["customresourcedefinitions", "inferenceconfigs.ai.krateo.io"]
    stored["status"]["conditions"] = [{"type": "NamesAccepted", "status": "False", "message": "icfg is in use"}]
    assert "icfg is in use" in the_problem(await look(cluster, temporal)).detail


async def test_who_may_not_read_definitions_is_not_told_that_something_is_wrong(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    cluster.errors["customresourcedefinitions"] = forbidden()
    findings = await look(cluster, temporal)
    assert exit_code(findings) == 0
    assert [finding.state for finding in findings if "definition" in finding.what] == [State.UNKNOWN] * 2


async def test_a_program_that_is_not_installed_is_told(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    cluster.deployments = [deployment("shim")]
    found = the_problem(await look(cluster, temporal))
    assert found.what == "worker"
    assert "--install-namespace" in found.cure


async def test_a_program_that_is_not_ready_is_told_with_the_command_that_shows_its_log(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    cluster.deployments = [deployment("shim", ready=0), deployment("worker")]
    found = the_problem(await look(cluster, temporal))
    assert "0 of 1" in found.detail
    assert "logs deployment/inferrun-shim" in found.cure


async def test_a_program_that_is_scaled_to_nothing_is_told(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    cluster.deployments = [deployment("shim"), deployment("worker", ready=0, replicas=0)]
    assert "--replicas=1" in the_problem(await look(cluster, temporal)).cure


async def test_a_bad_setting_is_told_with_its_name(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    cluster.objects["configmaps", "inferrun-config"] = {"data": {"backoffLimit": "many"}}
    assert "backoffLimit" in the_problem(await look(cluster, temporal)).detail


async def test_a_right_that_the_person_lacks_is_told(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    cluster.errors["subjectaccessreviews"] = forbidden()
    cluster.refused = {"create inferenceruns"}
    found = the_problem(await look(cluster, temporal))
    assert "create inferenceruns" in found.detail
    assert "models" in found.what


async def test_a_right_that_a_program_lacks_is_told(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    cluster.refused = {"get pods/log"}
    found = the_problem(await look(cluster, temporal))
    assert "inferrun-worker" in found.what
    assert "get pods/log" in found.detail


async def test_rights_are_asked_for_the_namespace_that_the_installation_serves(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    cluster.deployments = [deployment("shim", watch="team-a"), deployment("worker", watch="team-a")]
    await look(cluster, temporal)
    reviews = [body["spec"] for body in cluster.asked if body["kind"] == "SubjectAccessReview"]
    assert {review["resourceAttributes"]["namespace"] for review in reviews} == {"team-a"}
    assert {review["user"] for review in reviews} == {
        "system:serviceaccount:inferrun-system:inferrun-shim",
        "system:serviceaccount:inferrun-system:inferrun-worker",
    }


async def test_a_temporal_that_does_not_answer_is_told_with_its_address(cluster: FakeCluster) -> None:
    found = the_problem(await look(cluster, None))
    assert "temporal.example:7233" in found.detail
    assert "TEMPORAL_ADDRESS" in found.cure


async def test_a_missing_temporal_namespace_is_told_and_nothing_after_it(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    temporal.namespace_is_there = False
    assert "namespace create -n default" in the_problem(await look(cluster, temporal)).cure
    assert temporal.asked == []


async def test_a_missing_search_attribute_is_told_with_the_command_that_makes_it(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    del temporal.attributes["InferrunRun"]
    assert "--name InferrunRun --type Keyword" in the_problem(await look(cluster, temporal)).cure


async def test_a_search_attribute_of_another_type_is_told(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    temporal.attributes["InferrunRun"] = "Text"
    assert "InferrunRun" in the_problem(await look(cluster, temporal)).detail


async def test_a_server_that_keeps_its_search_attributes_to_itself_is_no_problem(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    temporal.attributes_error = Refused("not here")
    assert exit_code(await look(cluster, temporal)) == 0


async def test_the_queues_of_the_installation_are_asked_for(cluster: FakeCluster, temporal: FakeTemporal) -> None:
    await look(cluster, temporal)
    assert temporal.asked == [("batch", "workflows"), ("batch", "activities"), ("batch-follow", "activities")]


@pytest.mark.parametrize(
    "workers",
    [[], [Poller(f"inferrun/{INSTALLATION}/dead", 200.0)]],
    ids=["none", "one that was last seen minutes ago"],
)
async def test_a_queue_that_no_live_worker_polls_is_told(
    cluster: FakeCluster, temporal: FakeTemporal, workers: list[Poller]
) -> None:
    temporal.workers["batch-follow"] = workers
    found = the_problem(await look(cluster, temporal))
    assert "batch-follow" in found.what
    assert "component=worker" in found.cure


async def test_a_worker_of_another_installation_on_the_queue_is_told(
    cluster: FakeCluster, temporal: FakeTemporal
) -> None:
    ours, other = Poller(f"inferrun/{INSTALLATION}/a", 1.0), Poller("inferrun/other.cluster/b", 1.0)
    temporal.workers["batch-follow"] = [ours, other]
    found = the_problem(await look(cluster, temporal))
    assert "inferrun/other.cluster/b" in found.detail
    assert "taskQueue" in found.cure


def test_a_cure_of_two_lines_stays_below_its_problem() -> None:
    told = list(lines([Finding(State.PROBLEM, "x", "is broken", "do this\nthen that")]))
    assert told == ["PROBLEM  x: is broken", "         cure: do this", "               then that"]
