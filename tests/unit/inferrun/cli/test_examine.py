"""Every problem of an installation is found and reported with its fix."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from deploy.crds.definitions import inference_config, inference_run
from inferrun.cli.doctor import Question, examine
from inferrun.cli.findings import Finding, State, exit_code, summary
from inferrun.cli.programs import Installed, Poller
from inferrun.kube.errors import Unreachable
from inferrun.temporal.connection import TemporalUnavailable
from tests.unit.inferrun.cli.fakes import (
    INSTALLATION,
    FakeCluster,
    FakeTemporal,
    deployment,
    established,
    forbidden,
)

QUESTION = Question(install_namespace="inferrun-system", release="inferrun", namespace="models")


@dataclass
class Site:
    """An installation, its cluster and its Temporal server; None if that is unreachable."""

    cluster: FakeCluster
    temporal: FakeTemporal | None

    @property
    def server(self) -> FakeTemporal:
        assert self.temporal is not None
        return self.temporal

    async def findings(self) -> list[Finding]:
        return await examine(QUESTION, self.cluster, self._connect)

    async def problem(self) -> Finding:
        """The only problem; it has a fix, and the exit code is 1."""
        findings = await self.findings()
        problems = [finding for finding in findings if finding.state is State.PROBLEM]
        assert len(problems) == 1, problems
        assert problems[0].fix
        assert exit_code(findings) == 1
        return problems[0]

    async def _connect(self, installed: Installed) -> FakeTemporal:
        if self.temporal is None:
            raise TemporalUnavailable(f"{installed.temporal_address}: Connection refused")
        self.temporal.address = installed.temporal_address
        return self.temporal


@pytest.fixture
def site() -> Site:
    return Site(FakeCluster([inference_config(), inference_run()]), FakeTemporal())


async def test_a_healthy_installation_has_no_problems(site: Site) -> None:
    findings = await site.findings()
    assert {finding.state for finding in findings} == {State.OK}, findings
    assert exit_code(findings) == 0
    assert summary(findings).startswith("no problems")


async def test_an_unreachable_api_server_is_the_only_finding(site: Site) -> None:
    site.cluster.errors["version"] = Unreachable("GET /version: connection refused")
    assert len(await site.findings()) == 1
    assert "--kubeconfig" in (await site.problem()).fix


RUNS, CONFIGS = "inferenceruns.ai.krateo.io", "inferenceconfigs.ai.krateo.io"


def with_definition(site: Site, name: str, *, lacks: str) -> None:
    """Remove a member of the schema of a definition."""
    stored = established(inference_run() if name == RUNS else inference_config())
    *above, last = lacks.split(".")
    schema = stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for key in above:
        schema = schema[key]
    del schema[last]
    site.cluster.objects["customresourcedefinitions", name] = stored


def refuse_names(site: Site) -> None:
    conditions = [{"type": "NamesAccepted", "status": "False", "message": "icfg is in use"}]
    site.cluster.objects["customresourcedefinitions", CONFIGS]["status"]["conditions"] = conditions


PROBLEMS: dict[str, tuple[Callable[[Site], object], tuple[str, ...]]] = {
    "an old version": (
        lambda site: site.cluster.server_version.update(gitVersion="v1.30.2", minor="30+"),
        ("v1.30.2",),
    ),
    "a definition that is missing": (
        lambda site: site.cluster.objects.pop(("customresourcedefinitions", RUNS)),
        (f"definition {RUNS}:", "kubectl apply --server-side"),
    ),
    "an outdated definition": (
        lambda site: with_definition(
            site, RUNS, lacks="properties.spec.properties.pendingTimeoutSeconds"
        ),
        ("spec.pendingTimeoutSeconds",),
    ),
    "a definition that does not protect outcomes": (
        lambda site: with_definition(site, RUNS, lacks="x-kubernetes-validations"),
        ("outcome",),
    ),
    "a definition that is not served": (refuse_names, (CONFIGS, "icfg is in use")),
    "a program that is not installed": (
        lambda site: site.cluster.deployments.pop(),
        ("worker:", "--install-namespace"),
    ),
    "a program that is not ready": (
        lambda site: site.cluster.deployments[0]["status"].update(readyReplicas=0),
        ("0 of 1", "logs deployment/inferrun-shim"),
    ),
    "a program that is scaled to zero": (
        lambda site: site.cluster.deployments[1]["spec"].update(replicas=0),
        ("worker", "--replicas=1"),
    ),
    "an invalid setting": (
        lambda site: site.cluster.objects["configmaps", "inferrun-config"]["data"].update(
            backoffLimit="many"
        ),
        ("backoffLimit",),
    ),
    "a permission that a program lacks": (
        lambda site: site.cluster.denied.add("delete pods"),
        ("inferrun-worker", "delete pods"),
    ),
    "a Temporal server that does not respond": (
        lambda site: setattr(site, "temporal", None),
        ("temporal.example:7233", "TEMPORAL_ADDRESS"),
    ),
    "a search attribute that is missing": (
        lambda site: site.server.attributes.pop("InferrunRun"),
        ("--name InferrunRun --type Keyword",),
    ),
    "a search attribute of another type": (
        lambda site: site.server.attributes.update(InferrunRun="Text"),
        ("not of type Keyword: InferrunRun",),
    ),
}


@pytest.mark.parametrize("name", PROBLEMS)
async def test_a_problem_is_reported_with_its_fix(site: Site, name: str) -> None:
    damage, texts = PROBLEMS[name]
    damage(site)
    found = await site.problem()
    assert [
        text for text in texts if text not in f"{found.what}: {found.detail}\n{found.fix}"
    ] == []


async def test_definitions_that_the_user_may_not_read_are_unknown(site: Site) -> None:
    site.cluster.errors["customresourcedefinitions"] = forbidden()
    findings = await site.findings()
    assert exit_code(findings) == 0
    assert [finding.state for finding in findings if "definition" in finding.what] == [
        State.UNKNOWN
    ] * 2


async def test_a_missing_permission_of_the_user_is_reported(site: Site) -> None:
    site.cluster.errors["subjectaccessreviews"] = forbidden()
    site.cluster.denied = {"create inferenceruns"}
    found = await site.problem()
    assert "create inferenceruns" in found.detail
    assert "models" in found.what


async def test_a_missing_permission_for_the_leases_is_reported_for_both_programs(
    site: Site,
) -> None:
    site.cluster.denied = {"create leases"}
    found = [finding for finding in await site.findings() if finding.state is State.PROBLEM]
    assert [finding.what.split()[-4] for finding in found] == ["inferrun-shim", "inferrun-worker"]
    assert all("create leases.coordination.k8s.io" in finding.detail for finding in found)


async def test_permissions_are_checked_in_each_watched_namespace(site: Site) -> None:
    listed = "team-a,team-b"
    site.cluster.deployments = [
        deployment("shim", watch=listed),
        deployment("worker", watch=listed),
    ]
    await site.findings()
    reviews = [body["spec"] for body in site.cluster.asked if body["kind"] == "SubjectAccessReview"]
    for account in ("inferrun-shim", "inferrun-worker"):
        places = {
            review["resourceAttributes"]["namespace"]
            for review in reviews
            if review["user"].endswith(account)
            and review["resourceAttributes"]["resource"] != "leases"
        }
        assert places == {"team-a", "team-b"}
    assert {review["user"] for review in reviews} == {
        "system:serviceaccount:inferrun-system:inferrun-shim",
        "system:serviceaccount:inferrun-system:inferrun-worker",
    }


async def test_a_missing_temporal_namespace_ends_the_checks_of_temporal(site: Site) -> None:
    site.server.namespace_exists = False
    assert "namespace create -n default" in (await site.problem()).fix
    assert site.server.asked == []


async def test_search_attributes_that_cannot_be_listed_are_unknown(site: Site) -> None:
    site.server.attributes_error = TemporalUnavailable("not here")
    assert exit_code(await site.findings()) == 0


@pytest.mark.parametrize(
    "workers",
    [[], [Poller(f"inferrun/{INSTALLATION}/dead", 200.0)]],
    ids=["none", "one that has not polled for minutes"],
)
async def test_a_queue_without_live_workers_is_reported(site: Site, workers: list[Poller]) -> None:
    site.server.workers["batch"] = workers
    problems = [found for found in await site.findings() if found.state is State.PROBLEM]
    assert ["batch (workflows)" in problems[0].what, "batch (activities)" in problems[1].what] == [
        True,
        True,
    ]
    assert all("component=worker" in found.fix for found in problems)


async def test_a_worker_of_another_installation_is_reported(site: Site) -> None:
    ours, other = Poller(f"inferrun/{INSTALLATION}/a", 1.0), Poller("inferrun/other.cluster/b", 1.0)
    site.server.workers["batch"] = [ours, other]
    problems = [found for found in await site.findings() if found.state is State.PROBLEM]
    assert len(problems) == 2
    assert all(
        "inferrun/other.cluster/b" in found.detail and "taskQueue" in found.fix
        for found in problems
    )


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
    site: Site, own: str, others: str, where: str
) -> None:
    site.cluster.deployments = [deployment(name, watch=own) for name in ("shim", "worker")]
    site.cluster.other_shims = [
        deployment("shim", watch=others, namespace="team-b-system", release="second")
    ]
    found = await site.problem()
    assert where in found.what
    assert "release second in namespace team-b-system" in found.detail
    assert "watchNamespace" in found.fix


async def test_another_installation_that_serves_other_namespaces_is_no_problem(site: Site) -> None:
    site.cluster.deployments = [deployment(name, watch="team-a") for name in ("shim", "worker")]
    site.cluster.other_shims = [deployment("shim", watch="team-b", namespace="team-b-system")]
    assert exit_code(await site.findings()) == 0
