"""The bill of materials of an image lists what its layers leave installed."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from tools.supply_chain.bill_of_materials import cyclonedx
from tools.supply_chain.image_packages import Package, packages_in

SITE = "opt/inferrun/lib/python3.11/site-packages"
STATUS = """Package: libc6
Status: install ok installed
Version: 2.36-9

Package: removed
Status: deinstall ok config-files
Version: 1
"""


def tar_of(files: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            tar.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


def archive_of(path: Path, *layers: dict[str, str]) -> Path:
    """An image archive with these layers, from the lowest to the highest."""
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    with tarfile.open(path, "w") as tar:
        contents = {"manifest.json": json.dumps([{"Layers": names}]).encode()}
        contents |= {name: tar_of(files) for name, files in zip(names, layers, strict=True)}
        for name, content in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


def distribution(name: str, version: str, license_: str = "") -> str:
    stated = f"License-Expression: {license_}\n" if license_ else ""
    return f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{stated}\nA description\n"


def test_a_later_layer_replaces_and_removes(tmp_path: Path) -> None:
    first = {
        f"{SITE}/a-1.dist-info/METADATA": distribution("a", "1"),
        f"{SITE}/b-1.dist-info/METADATA": distribution("b", "1"),
        "tmp/pip/x/c-1.dist-info/METADATA": distribution("c", "1"),
        "var/lib/dpkg/status": STATUS,
    }
    second = {
        f"{SITE}/.wh.a-1.dist-info": "",
        f"{SITE}/a-2.dist-info/METADATA": distribution("a", "2"),
        "tmp/.wh..wh..opq": "",
        "var/lib/dpkg/status": STATUS.replace("2.36-9", "2.36-10"),
    }
    found = packages_in(archive_of(tmp_path / "a.tar", first, second))
    assert found == (
        Package("deb", "libc6", "2.36-10"),
        Package("pypi", "a", "2"),
        Package("pypi", "b", "1"),
    )


def test_the_bill_names_each_package_once_and_is_reproducible() -> None:
    packages = (Package("deb", "libc6", "2.36-9"), Package("pypi", "orjson", "3.0", "MIT"))
    bill = json.loads(cyclonedx(packages, name="inferrun/runner", version="1"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    assert {item["purl"] for item in bill["components"]} == {
        "pkg:deb/debian/libc6@2.36-9",
        "pkg:pypi/orjson@3.0",
    }
    assert bill["metadata"]["component"]["name"] == "inferrun/runner"
    again = json.loads(cyclonedx(packages, name="inferrun/runner", version="1"))
    assert again["serialNumber"] == bill["serialNumber"]


@pytest.mark.parametrize(
    "content",
    [b"not a tar", tar_of({"readme": "x"}), tar_of({"manifest.json": '[{"Layers": []}]'})],
)
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    archive = tmp_path / "a.tar"
    archive.write_bytes(content)
    with pytest.raises((ValueError, tarfile.TarError)):
        packages_in(archive)
