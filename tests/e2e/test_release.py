"""A release is built twice, published in a registry of this machine, verified, and installed from
there without the checkout."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from campaigns.benchmarks.processes import free_port
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


def supply_chain(
    action: str, folder: Path, *, registry: str, key: str
) -> "subprocess.CompletedProcess[str]":
    """Do as `make release` and `make verify-release` do, in another checkout."""
    words = [
        "-m",
        "tools.supply_chain",
        action,
        "--registry",
        registry,
        "--version",
        VERSION,
        "--key",
        key,
    ]
    return subprocess.run(
        [ROOT / ".venv/bin/python", *words],
        cwd=folder,
        env={
            **os.environ,
            "COSIGN_PASSWORD": "",
            "PATH": f"{attached().binaries}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def generate_key(folder: Path) -> Path:
    """The public key of a new pair; the private key is beside it."""
    cosign = binaries.program_dir(binaries.COSIGN) / "cosign"
    subprocess.run(
        [cosign, "generate-key-pair"],
        cwd=folder,
        env={**os.environ, "COSIGN_PASSWORD": ""},
        check=True,
    )
    return folder / "cosign.pub"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a registry on loopback."""
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


@pytest.fixture(scope="module")
def published(registry: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Published]:
    """This checkout, with changes of its files that are not committed: published from one folder,
    and built in another."""

    def git(*words: str | Path) -> str:
        return subprocess.run(
            ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout.strip()

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
        yield Published(
            f"{registry}/team", work / "first", work / "cosign.pub", (outputs[0], outputs[1])
        )
    finally:
        for folder in (work / "first", work / "a" / "second"):
            git("worktree", "remove", "--force", folder)


def test_two_builds_of_a_commit_are_equal(published: Published) -> None:
    first, second = (
        re.findall(r"built (\S+): (sha256:\w{64})", output) for output in published.outputs
    )
    assert [name for name, _ in first] == [
        "inferrun/runner",
        "inferrun/control",
        "inferrun.tgz",
        "inferrun.yaml",
    ]
    assert first == second
    assert "nothing was pushed, because KEY is not set" in published.outputs[1]


def test_a_published_release_is_verified_with_its_key_only(published: Published) -> None:
    done = published.verify(key=published.key)
    assert done.returncode == 0, done.stderr
    for repository in ("inferrun/runner", "inferrun/control", "charts/inferrun"):
        verified = (
            f"verified {published.registry}/{repository}:{VERSION}@{published.digest(repository)}"
        )
        assert verified in done.stdout
    other = published.key.parent / "other"
    other.mkdir()
    refused = published.verify(key=generate_key(other))
    assert refused.returncode == 1
    assert (
        f"{published.registry}/inferrun/runner:{VERSION} was not signed with this key"
        in refused.stderr
    )


def test_a_tag_that_was_moved_is_named_even_if_the_other_image_is_signed(
    published: Published,
) -> None:
    control, runner = (published.digest(f"inferrun/{name}") for name in ("control", "runner"))
    moved = f"{published.registry}/inferrun/control"

    def move_tag(source: str) -> None:
        copy = ["skopeo", "copy", "--quiet", "--insecure-policy", "--preserve-digests"]
        tls = ["--src-tls-verify=false", "--dest-tls-verify=false"]
        subprocess.run(
            [*copy, *tls, f"docker://{published.registry}/{source}", f"docker://{moved}:{VERSION}"],
            check=True,
        )

    def sign(*words: str) -> None:
        built = published.folder / "build-output" / "release"
        files = ["--signing-config", "signing-config.json", "--trusted-root", "trusted-root.json"]
        cosign = binaries.program_dir(binaries.COSIGN) / "cosign"
        key = published.key.with_suffix(".key")
        command = [str(cosign), *words, "--yes", "--key", str(key), *files, f"{moved}@{runner}"]
        subprocess.run(command, cwd=built, env={**os.environ, "COSIGN_PASSWORD": ""}, check=True)

    move_tag(f"inferrun/runner@{runner}")
    try:
        unsigned = published.verify(key=published.key)
        sign("sign")
        sign("attest", "--type", "cyclonedx", "--predicate", "runner.cdx.json")
        sign("attest", "--type", "slsaprovenance1", "--predicate", "runner.provenance.json")
        signed = published.verify(key=published.key)
    finally:
        move_tag(f"inferrun/control@{control}")
    assert (unsigned.returncode, signed.returncode) == (1, 1)
    assert (
        f"{moved}:{VERSION} was not signed with this key, or is not what was signed"
        in unsigned.stderr
    )
    assert (
        f"{moved}:{VERSION} is signed, but is not the image that the chart names" in signed.stderr
    )


@pytest.fixture
def installed(
    published: Published, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """The product as the registry has it, installed in an empty folder. Afterwards, the node is as
    before."""
    monkeypatch.chdir(tmp_path)
    chart = f"oci://{published.registry}/charts/inferrun"
    stage.helm("uninstall", "inferrun", "--wait")
    try:
        temporal = f"temporal.address={stage.temporal_address}"
        stage.helm(
            "install",
            "inferrun",
            chart,
            "--version",
            VERSION,
            "--set",
            temporal,
            "--wait",
            seconds=SECONDS,
        )
        yield
    finally:
        stage.helm("uninstall", "inferrun", "--wait")
        install(stage)
        images = [*archives.ctr_command(LAYOUT), "images"]
        listed = subprocess.run(
            [*images, "list"], check=True, capture_output=True, text=True
        ).stdout.splitlines()
        digests = [
            published.digest(repository) for repository in ("inferrun/control", "inferrun/runner")
        ]
        pulled = [line.split()[0] for line in listed if any(digest in line for digest in digests)]
        subprocess.run([*images, "remove", *pulled], check=True, capture_output=True)


@pytest.mark.usefixtures("installed")
def test_an_installation_from_the_registry_executes_a_run(
    published: Published, stage: Stage, space: Space
) -> None:
    def digests(*words: str) -> set[str]:
        pods = json.loads(stage.kubectl("get", "pods", "-o", "json", *words))["items"]
        return {
            status["imageID"].partition("@")[2]
            for pod in pods
            for status in pod["status"]["containerStatuses"]
        }

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
    assert digests("-n", space.name, "-l", "batch.kubernetes.io/job-name") == {
        published.digest("inferrun/runner")
    }
