"""A release is built twice, published in a registry of this machine, verified, and installed from there without the checkout."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from benchmarks.processes import free_port
from tests.e2e.conftest import install
from tests.e2e.file_world import FOLDER, in_pod, prepare_rows
from tests.e2e.stage import ROOT, SYSTEM, Space, Stage, attached, run, until
from tools.devcluster import archives, binaries
from tools.devcluster.layout import LAYOUT
from tools.devcluster.probes import http_ok

pytestmark = [pytest.mark.alone, pytest.mark.thorough]

VERSION = "0.1.0"
SECONDS = 900


@dataclass(frozen=True)
class Published:
    """A release in a registry, and the output of its two builds."""

    registry: str
    folder: Path
    key: Path
    outputs: tuple[str, str]

    def digest(self, repository: str) -> str:
        (found,) = re.findall(rf"published \S+/{repository}:{VERSION}@(\S+)", self.outputs[0])
        return str(found)

    def verify(self, *, key: Path) -> "subprocess.CompletedProcess[str]":
        return supply_chain("verify", self.folder, registry=self.registry, key=str(key))


def supply_chain(action: str, folder: Path, *, registry: str, key: str) -> "subprocess.CompletedProcess[str]":
    """Do as `make release` and `make verify-release` do, in another checkout."""
    words = ["-m", "tools.supply_chain", action, "--registry", registry, "--version", VERSION, "--key", key]
    return subprocess.run(
        [ROOT / ".venv/bin/python", *words],
        cwd=folder,
        env={**os.environ, "COSIGN_PASSWORD": "", "PATH": f"{attached().binaries}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def generate_key(folder: Path) -> Path:
    """The public key of a new pair; the private key is beside it."""
    cosign = binaries.program_dir(binaries.COSIGN) / "cosign"
    subprocess.run([cosign, "generate-key-pair"], cwd=folder, env={**os.environ, "COSIGN_PASSWORD": ""}, check=True)
    return folder / "cosign.pub"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a registry on loopback. Afterwards the node forgets the images that it pulled from there."""
    binaries.build_missing(modules=(binaries.COSIGN, binaries.REGISTRY))
    address, folder = f"127.0.0.1:{free_port()}", tmp_path_factory.mktemp("registry")
    settings = {"version": "0.1", "http": {"addr": address}, "log": {"level": "error"}}
    storage = {"storage": {"filesystem": {"rootdirectory": str(folder)}}}
    (folder / "config.yaml").write_text(json.dumps({**settings, **storage}))
    program = binaries.program_dir(binaries.REGISTRY) / "registry"
    with subprocess.Popen([program, "serve", folder / "config.yaml"]) as process:
        try:
            until(http_ok(f"http://{address}/v2/"), seconds=60, what="the registry responds")
            yield address
        finally:
            process.terminate()
    pulled = [name for name in archives.images_on_node() if name.startswith(address)]
    subprocess.run([*archives.ctr_command(LAYOUT), "images", "remove", *pulled], check=True, capture_output=True)


@pytest.fixture(scope="module")
def published(registry: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    """This checkout, with changes of its files that are not committed: published from one folder, and built in another."""

    def git(*words: str | Path) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    commit = git("stash", "create") or git("rev-parse", "HEAD")
    work = tmp_path_factory.mktemp("release")
    generate_key(work)
    outputs = []
    try:
        for folder, key in ((work / "first", work / "cosign.key"), (work / "a" / "second", "")):
            git("worktree", "add", "--detach", folder, commit)
            done = supply_chain("release", folder, registry=f"{registry}/team", key=str(key))
            assert done.returncode == 0, done.stdout + done.stderr
            outputs.append(done.stdout)
        yield Published(f"{registry}/team", work / "first", work / "cosign.pub", (outputs[0], outputs[1]))
    finally:
        for folder in (work / "first", work / "a" / "second"):
            git("worktree", "remove", "--force", folder)


def test_two_builds_of_a_commit_are_equal(published: Published) -> None:
    first, second = (re.findall(r"built (\S+): (sha256:\w{64})", output) for output in published.outputs)
    assert [name for name, _ in first] == ["inferrun/runner", "inferrun/control", "inferrun.tgz"]
    assert first == second
    assert "nothing was pushed, because KEY is not set" in published.outputs[1]


def test_a_published_release_is_verified_with_its_key_only(published: Published) -> None:
    done = published.verify(key=published.key)
    assert done.returncode == 0, done.stderr
    for repository in ("inferrun/runner", "inferrun/control", "charts/inferrun"):
        verified = f"verified {published.registry}/{repository}:{VERSION}@{published.digest(repository)}"
        assert verified in done.stdout
    other = published.key.parent / "other"
    other.mkdir()
    refused = published.verify(key=generate_key(other))
    assert refused.returncode == 1
    assert f"{published.registry}/inferrun/runner:{VERSION} was not signed with this key" in refused.stderr


def test_a_tag_that_was_moved_to_another_image_is_named(published: Published) -> None:
    def move_tag(source: str) -> None:
        copy = ["skopeo", "copy", "--quiet", "--insecure-policy", "--preserve-digests"]
        tls = ["--src-tls-verify=false", "--dest-tls-verify=false"]
        target = f"docker://{published.registry}/inferrun/control:{VERSION}"
        subprocess.run([*copy, *tls, f"docker://{published.registry}/{source}", target], check=True)

    move_tag(f"inferrun/runner@{published.digest('inferrun/runner')}")
    try:
        done = published.verify(key=published.key)
    finally:
        move_tag(f"inferrun/control@{published.digest('inferrun/control')}")
    assert done.returncode == 1
    assert f"{published.registry}/inferrun/control:{VERSION} was not signed with this key, or is not" in done.stderr


@pytest.fixture
def installed(published: Published, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The product as the registry has it: the command of the documentation, in an empty folder. Afterwards, as before."""
    monkeypatch.chdir(tmp_path)
    chart = f"oci://{published.registry}/charts/inferrun"
    stage.helm("uninstall", "inferrun", "--wait")
    try:
        temporal = f"temporal.address={stage.temporal_address}"
        stage.helm("install", "inferrun", chart, "--version", VERSION, "--set", temporal, "--wait", seconds=SECONDS)
        yield
    finally:
        stage.helm("uninstall", "inferrun", "--wait")
        install(stage)


@pytest.mark.usefixtures("installed")
def test_an_installation_from_the_registry_executes_a_run(published: Published, stage: Stage, space: Space) -> None:
    def digests(*words: str) -> set[str]:
        pods = json.loads(stage.kubectl("get", "pods", "-o", "json", *words))["items"]
        return {status["imageID"].partition("@")[2] for pod in pods for status in pod["status"]["containerStatuses"]}

    control = {published.digest("inferrun/control")}
    until(
        lambda: digests("-n", SYSTEM) == control,
        seconds=60,
        what="only Pods of the release",
        now=lambda: digests("-n", SYSTEM),
    )
    prepare_rows(space, backoffLimit=0)
    in_pod(space, f"echo '[1, 1]' > {FOLDER}/in.jsonl")
    space.apply(run("first", "ours"))
    status = space.wait_for("first", phase="Succeeded", seconds=SECONDS)
    assert status["records"] == {"total": 1, "completed": 1, "failed": 0}
    assert digests("-n", space.name, "-l", "batch.kubernetes.io/job-name") == {published.digest("inferrun/runner")}
