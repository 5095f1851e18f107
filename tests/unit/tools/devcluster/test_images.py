"""Decisions about images that need no build tool."""

import re

from tools.devcluster.images import EXAMPLE_IMAGES, PRODUCT_IMAGES, codename


def test_a_code_name_is_read_with_and_without_quotes() -> None:
    assert codename('NAME="Debian"\nVERSION_CODENAME=bookworm\n') == "bookworm"
    assert codename('VERSION_CODENAME="noble"\n') == "noble"


def test_every_image_has_a_dockerfile() -> None:
    assert all(image.dockerfile.is_file() for image in PRODUCT_IMAGES + EXAMPLE_IMAGES)


def test_docker_compiles_the_same_version_of_the_s3_server() -> None:
    (image,) = (image for image in EXAMPLE_IMAGES if image.module)
    assert image.module
    _, package = image.module.targets[0]
    versions = dict(
        re.findall(r"^\s+(\S+) (v\S+)", (image.module.folder / "go.mod").read_text(), re.MULTILINE)
    )
    version = versions[package.partition("/cmd/")[0]]
    assert f"go install {package}@{version}" in image.dockerfile.read_text()
