"""Installs the foreign packages without an installer or an index, as modules with metadata in a
folder on the path."""

import shutil
import tomllib
from pathlib import Path

SOURCES = [Path(__file__).parent / name for name in ("foreign", "foreign_protocol")]


def install(site: Path) -> None:
    """Copy the packages into a folder with the metadata that an installer writes."""
    for source in SOURCES:
        _install(source, site)


def _install(source: Path, site: Path) -> None:
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    module = project["name"].replace("-", "_")
    shutil.copytree(source / module, site / module, ignore=shutil.ignore_patterns("__pycache__"))
    info = site / f"{module}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    (info / "INSTALLER").write_text("tests\n")
    (info / "RECORD").write_text(
        "".join(
            f"{path.relative_to(site)},,\n" for path in (site / module).rglob("*") if path.is_file()
        )
    )
    (info / "entry_points.txt").write_text(_sections(project["entry-points"]))


def _sections(groups: dict[str, dict[str, str]]) -> str:
    return "\n".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in groups.items()
    )
