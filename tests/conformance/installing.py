"""Installs the foreign package without an installer or an index, as a module with metadata in a folder on the path."""

import shutil
import tomllib
from pathlib import Path

SOURCE = Path(__file__).parent / "foreign"


def install(site: Path) -> None:
    """Copy the package into a folder with the metadata that an installer writes."""
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]
    module = project["name"].replace("-", "_")
    shutil.copytree(SOURCE / module, site / module, ignore=shutil.ignore_patterns("__pycache__"))
    info = site / f"{module}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    (info / "INSTALLER").write_text("tests\n")
    (info / "RECORD").write_text("".join(f"{path.relative_to(site)},,\n" for path in site.rglob("*") if path.is_file()))
    (info / "entry_points.txt").write_text(_sections(project["entry-points"]))


def _sections(groups: dict[str, dict[str, str]]) -> str:
    return "\n".join(
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in groups.items()
    )
