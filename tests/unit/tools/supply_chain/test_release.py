"""Of a release, what needs no image: the chart's archive and the checks before anything is
built."""

import io
import tarfile

import pytest
import yaml

from tools.supply_chain import chart
from tools.supply_chain.__main__ import main

IMAGES = {
    f"inferrun/{name}": f"registry.test/inferrun/{name}:1.2.3@sha256:{name[0] * 64}"
    for name in ("control", "runner")
}


def test_the_chart_names_the_version_and_the_images_of_its_release() -> None:
    archive = chart.package(version="1.2.3", images=IMAGES, seconds=1_700_000_000)
    assert archive == chart.package(version="1.2.3", images=IMAGES, seconds=1_700_000_000)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        files = {entry.name: tar.extractfile(entry) for entry in tar}
        texts = {name: file.read() for name, file in files.items() if file}
    metadata, values = (
        yaml.safe_load(texts[f"inferrun/{name}.yaml"]) for name in ("Chart", "values")
    )
    assert (metadata["version"], metadata["appVersion"]) == ("1.2.3", "1.2.3")
    assert [values["images"]["control"], values["images"]["runner"]] == list(IMAGES.values())
    checkout = {
        path.relative_to(chart.FOLDER.parent).as_posix()
        for path in chart.FOLDER.rglob("*")
        if path.is_file()
    }
    assert set(texts) == checkout


def test_a_chart_without_the_image_of_the_checkout_is_refused() -> None:
    with pytest.raises(ValueError, match="localhost/inferrun/other:dev 0 times"):
        chart.package(version="1.2.3", images={"inferrun/other": "x"}, seconds=0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("release", "", "0.1.0"), "REGISTRY is not set"),
        (("release", "registry.test", ""), "VERSION is not set"),
        (("verify", "registry.test", "0.1.0"), "KEY is not set"),
        (("release", "registry.test", "99.0.0"), "VERSION=99.0.0, but pyproject.toml has version"),
    ],
)
def test_a_missing_value_is_named_before_anything_is_built(
    given: tuple[str, str, str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    action, registry, version = given
    assert main([action, "--registry", registry, "--version", version]) == 1
    assert f"error: {expected}" in capsys.readouterr().err
