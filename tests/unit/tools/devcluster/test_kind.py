"""Commands for kind clusters; the programs themselves are replaced by ones that record their
arguments."""

import os
from pathlib import Path

import pytest

from tools.devcluster import images
from tools.devcluster.errors import DevClusterError
from tools.devcluster.images import Image

RECORDER = """#!/bin/sh
printf '%s' "$(basename "$0")" >> {log}
for word in "$@"; do printf ' %s' "$word" >> {log}; done
echo >> {log}
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of the calls of docker and kind, which do nothing else."""
    programs, log = tmp_path / "bin", tmp_path / "calls"
    programs.mkdir()
    for name in ("docker", "kind"):
        (programs / name).write_text(RECORDER.format(log=log))
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.delenv("INFERRUN_BASE_IMAGE", raising=False)
    return log


def _image(folder: Path) -> Image:
    folder.mkdir()
    (folder / "Dockerfile").write_text("FROM scratch\n")
    return Image("localhost/test:dev", folder, folder / "Dockerfile")


def test_an_image_is_built_by_docker_and_loaded_by_kind(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFERRUN_CONTEXT", "kind-demo")
    image = _image(tmp_path / "image")
    images.load_all([image])
    build, load = calls.read_text().splitlines()
    assert build.startswith(
        f"docker build --quiet --tag localhost/test:dev --file {image.dockerfile} "
    )
    assert load == "kind load docker-image --name demo localhost/test:dev"


def test_a_base_image_is_passed_to_the_build(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFERRUN_CONTEXT", "kind-demo")
    monkeypatch.setenv("INFERRUN_BASE_IMAGE", "python:3.12-slim")
    images.load_all([_image(tmp_path / "image")])
    assert "--build-arg BASE=python:3.12-slim" in calls.read_text()


def test_images_cannot_be_loaded_into_other_clusters(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INFERRUN_CONTEXT", "team")
    with pytest.raises(DevClusterError, match="not a kind cluster") as caught:
        images.load_all([_image(tmp_path / "image")])
    assert "registry" in caught.value.fix
    assert not calls.exists()
