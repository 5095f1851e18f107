"""Decisions about images that need no build tool."""

from tools.devcluster.images import EXAMPLE_IMAGES, PRODUCT_IMAGES, codename


def test_a_code_name_is_read_with_and_without_quotes() -> None:
    assert codename('NAME="Debian"\nVERSION_CODENAME=bookworm\n') == "bookworm"
    assert codename('VERSION_CODENAME="noble"\n') == "noble"


def test_every_image_has_a_dockerfile() -> None:
    assert all(image.dockerfile.is_file() for image in PRODUCT_IMAGES + EXAMPLE_IMAGES)
