"""Builds a release, publishes it in an OCI registry, and verifies it there.

A release is the two images and a chart that names them by digest. Two builds of a commit on one
base image are equal: all files have the commit's time, and no layer is taken from an earlier build.
Images and chart are signed with a key, and so are the images' bills of materials and statements of
provenance. No transparency log takes part: a verification asks nobody but the registry.
"""

import hashlib
import json
import os
import shutil
import tempfile
import tomllib
from dataclasses import dataclass, replace
from pathlib import Path

from inferrun.cli.doctor import OLDEST_MINOR
from tools.devcluster import binaries, images
from tools.devcluster.commands import run
from tools.devcluster.console import step
from tools.devcluster.errors import DevClusterError
from tools.devcluster.layout import CHECKOUT, LAYOUT
from tools.supply_chain import chart
from tools.supply_chain.bill_of_materials import cyclonedx
from tools.supply_chain.image_packages import packages_in

OUTPUT = CHECKOUT / "build-output" / "release"
IMAGES = {
    image.name.removeprefix("localhost/").removesuffix(":dev"): image
    for image in images.PRODUCT_IMAGES
}
"""The images by their path in the registry."""
CHART = "charts/inferrun"
COPY = ("skopeo", "copy", "--quiet", "--insecure-policy")
ATTESTED = {"cyclonedx": "cdx.json", "slsaprovenance1": "provenance.json"}
"""Types of attestations of an image, and the suffixes of their files."""
WITHOUT_SERVICES = {
    "signing-config": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
    "trusted-root": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
}
"""Files of cosign, by option, and their media types: empty ones name no transparency log, authority
or clock to connect to."""


@dataclass(frozen=True)
class Release:
    """A version, and where it is published: the host of a registry and a path on it."""

    registry: str
    version: str

    def reference(self, repository: str, digest: str = "") -> str:
        return f"{self.registry}/{repository}:{self.version}{digest and '@'}{digest}"

    @property
    def skopeo_tls(self) -> str:
        """A registry on this machine speaks HTTP without TLS, as containerd, Helm and cosign expect
        without being told."""
        return str(not self.registry.startswith(("127.0.0.1:", "localhost:"))).lower()


def build(release: Release) -> dict[str, str]:
    """Build everything in OUTPUT; the digests of the images by path, and the SHA-256 of the chart,
    packed and rendered."""
    commit, seconds = _source(release.version)
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    digests = {}
    for repository, image in IMAGES.items():
        built, folder = f"localhost/{repository}:{release.version}", OUTPUT / image.short_name
        with step(image.step_name):
            # Docker's format would contain the random ids of containers.
            options = ("--no-cache", "--format", "oci", "--timestamp", str(seconds))
            images.build(replace(image, name=built), options=options)
            run([*COPY, f"containers-storage:{built}", f"oci:{folder}:image"])
            run(["buildah", "rmi", built])
        digests[repository] = json.loads((folder / "index.json").read_text())["manifests"][0][
            "digest"
        ]
        with (
            step(f"describe image {image.short_name}"),
            tempfile.TemporaryDirectory(dir=OUTPUT) as scratch,
        ):
            unpacked = Path(scratch) / "image.tar"
            run([*COPY, f"oci:{folder}:image", f"docker-archive:{unpacked}"])
            bill = cyclonedx(packages_in(unpacked), name=repository, version=release.version)
        folder.with_suffix(".cdx.json").write_text(bill)
        provenance = _provenance(image.short_name, version=release.version, commit=commit)
        folder.with_suffix(".provenance.json").write_text(json.dumps(provenance, indent=2))
    named = {
        repository: release.reference(repository, digest) for repository, digest in digests.items()
    }
    content = chart.package(version=release.version, images=named, seconds=seconds)
    archive = OUTPUT / "inferrun.tgz"
    archive.write_bytes(content)
    os.utime(archive, (seconds, seconds))  # Helm publishes it as the chart's time of creation
    place = ("--namespace", "inferrun-system", "--kube-version", f"1.{OLDEST_MINOR}")
    rendered = _helm(
        "template", "inferrun", archive, *place, "--set", "temporal.envFromSecret=temporal-access"
    ).encode()
    manifests = OUTPUT / "inferrun.yaml"
    manifests.write_bytes(rendered)
    files = {archive.name: content, manifests.name: rendered}
    return digests | {
        name: f"sha256:{hashlib.sha256(content).hexdigest()}" for name, content in files.items()
    }


def _source(version: str) -> tuple[str, int]:
    """The checkout's commit and its time. Everything in the checkout must be part of the commit."""
    stated = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]["version"]
    if stated != version:
        raise DevClusterError(
            f"VERSION={version}, but pyproject.toml has version {stated}",
            fix="set both to one version",
        )
    if changed := run(["git", "status", "--porcelain"], cwd=CHECKOUT).splitlines():
        raise DevClusterError(
            f"the checkout differs from its commit: {changed[0]}",
            fix="commit the change or discard it",
        )
    commit, seconds = run(
        ["git", "show", "--no-patch", "--format=%H %ct", "HEAD"], cwd=CHECKOUT
    ).split()
    return commit, int(seconds)


def _provenance(image: str, *, version: str, commit: str) -> dict[str, object]:
    """The predicate that https://slsa.dev/spec/v1.0/provenance describes: what the image was built
    from."""
    base = json.loads(run(["buildah", "inspect", "--type", "image", images.base_image()]))[
        "FromImageDigest"
    ]
    sources = [
        {"name": "source", "digest": {"gitCommit": commit}},
        {"name": images.base_image(), "digest": {"sha256": base.removeprefix("sha256:")}},
    ]
    parameters = {"image": image, "version": version}
    definition = {"buildType": "urn:inferrun:make-release:1", "externalParameters": parameters}
    return {
        "buildDefinition": {**definition, "resolvedDependencies": sources},
        "runDetails": {"builder": {"id": "urn:inferrun:make-release"}},
    }


def publish(release: Release, *, key: str) -> dict[str, str]:
    """Push and sign what was built; the digests of images and chart by path. COSIGN_PASSWORD is the
    key's password."""
    _provide_cosign()
    digests = {}
    for repository, image in IMAGES.items():
        with step(f"push {repository}"):
            target = f"docker://{release.reference(repository)}"
            tls = f"--dest-tls-verify={release.skopeo_tls}"
            run(
                [*COPY, "--preserve-digests", tls, f"oci:{OUTPUT / image.short_name}:image", target]
            )
    _helm("push", OUTPUT / "inferrun.tgz", f"oci://{release.registry}/{Path(CHART).parent}")
    signing = ["--yes", "--key", key]
    for option, media_type in WITHOUT_SERVICES.items():
        file = OUTPUT / f"{option}.json"
        file.write_text(json.dumps({"mediaType": media_type}))
        signing += [f"--{option}", str(file)]
    for repository in (*IMAGES, CHART):
        inspect = ["skopeo", "inspect", "--raw", f"--tls-verify={release.skopeo_tls}"]
        manifest = run([*inspect, f"docker://{release.reference(repository)}"])
        digests[repository] = f"sha256:{hashlib.sha256(manifest.encode()).hexdigest()}"
        reference = f"{release.registry}/{repository}@{digests[repository]}"
        with step(f"sign {repository}"):
            _cosign("sign", *signing, reference)
            for kind, suffix in ATTESTED.items() if repository in IMAGES else ():
                predicate = OUTPUT / f"{IMAGES[repository].short_name}.{suffix}"
                _cosign("attest", *signing, "--type", kind, "--predicate", predicate, reference)
    return digests


def verify(release: Release, *, key: str) -> dict[str, str]:
    """Check the signatures, the attestations, and that the chart names the signed images; the
    digests by path.

    Raises DevClusterError, which names the first artifact that fails.
    """
    _provide_cosign()
    trusting = ("--key", key, "--insecure-ignore-tlog", "--output", "json")
    digests = {}
    for repository in (*IMAGES, CHART):
        reference = release.reference(repository)
        try:
            with step(f"verify {repository}"):
                signed = json.loads(_cosign("verify", *trusting, reference))
                digests[repository] = signed[0]["critical"]["image"]["docker-manifest-digest"]
                for kind in ATTESTED if repository in IMAGES else ():
                    found = f"{release.registry}/{repository}@{digests[repository]}"
                    _cosign("verify-attestation", *trusting, "--type", kind, found)
        except DevClusterError as error:
            raise DevClusterError(
                f"{reference} was not signed with this key, or is not what was signed",
                fix="do not install it; check KEY and where the release comes from",
                detail=error.detail,
            ) from error
    values = _helm("show", "values", f"oci://{release.registry}/{CHART}@{digests[CHART]}")
    for repository in IMAGES:
        if f"{repository}:{release.version}@{digests[repository]}" not in values:
            raise DevClusterError(
                f"{release.reference(repository)} is signed, but is not the image that the chart names",
                fix="do not install it; the tag was moved",
            )
    return digests


def _helm(*words: str | Path) -> str:
    program = shutil.which("helm", path=f"{LAYOUT.programs}:{os.environ['PATH']}") or "helm"
    return run(
        [program, *words], extra_env={"TZ": "UTC"}, fix="install Helm 3, or see the output above"
    )


def _provide_cosign() -> None:
    binaries.build_missing(modules=(binaries.COSIGN,))


def _cosign(*words: str | Path) -> str:
    return run(
        [binaries.program_dir(binaries.COSIGN) / "cosign", *words],
        fix="check KEY and COSIGN_PASSWORD",
    )
