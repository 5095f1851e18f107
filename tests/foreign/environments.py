"""The environments of the software of others: each its own, made from its pins below the cache
folder of the development cluster.

An environment is named after the content of its pins, so that it is made once, and again when they
change. Go, npm, Maven and a JDK are those of the machine; of Debian's packages only those are
installed that a folder names in `debian.txt`.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.foreign.software import PINS, Software
from tools.devcluster.commands import run
from tools.devcluster.errors import DevClusterError
from tools.devcluster.layout import LAYOUT, Layout
from tools.devcluster.venv import uv_program

INSTALL_SECONDS = 1500.0
REGISTRY_FIX = "check that the client reaches its registry"


@dataclass(frozen=True, slots=True)
class Environment:
    """What calls a writer; its only argument, the folder to write to, is still to be added."""

    command: tuple[str, ...]
    variables: dict[str, str] = field(default_factory=dict)


def provide(software: Software, *, layout: Layout = LAYOUT) -> Environment:
    """Make the environment unless it exists. Raises DevClusterError if something of this machine is
    in the way."""
    digest = hashlib.sha256(sys.version.encode())
    for name in PINS:
        if software.has(name):
            digest.update((software.folder / name).read_bytes())
    folder = layout.cache / "foreign" / f"{software.name}-{digest.hexdigest()[:16]}"
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".partial-"))
        try:
            _install(software, partial, layout=layout)
            partial.rename(folder)  # only a complete one gets its final name
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    return _environment(software, folder)


def _install(software: Software, folder: Path, *, layout: Layout) -> None:
    """Install everything that the folder pins; some software, such as Spark with its connectors, is
    of several registries."""
    if software.has("debian.txt"):
        _install_debian((software.folder / "debian.txt").read_text().split())
    if software.has("requirements.txt"):
        uv = uv_program(layout)
        run([uv, "venv", "--quiet", "--relocatable", "--python", sys.executable, folder / "venv"])
        pins = ["-r", str(software.folder / "requirements.txt")]
        to = ["--quiet", "--python", str(folder / "venv" / "bin" / "python")]
        run([uv, "pip", "install", *to, *pins], fix=REGISTRY_FIX, timeout=INSTALL_SECONDS)
    if software.writer.suffix == ".java" and shutil.which("javac") is None:
        _install_debian(["default-jdk-headless"])
    if software.has("pom.xml"):
        goal = ["dependency:build-classpath", f"-Dmdep.outputFile={folder / 'classpath'}"]
        pom = software.folder / "pom.xml"
        run(
            ["mvn", "--quiet", "--batch-mode", "-f", pom, *goal],
            fix=REGISTRY_FIX,
            timeout=INSTALL_SECONDS,
        )
    if software.has("package-lock.json"):
        for name in ("package.json", "package-lock.json"):
            shutil.copy(software.folder / name, folder)
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        run(["npm", "ci", *options], cwd=folder, fix=REGISTRY_FIX, timeout=INSTALL_SECONDS)


def _install_debian(packages: Sequence[str]) -> None:
    query = ["dpkg-query", "--show", "--showformat=${db:Status-Status}\n", *packages]
    states = subprocess.run(query, capture_output=True, text=True, check=False)
    if states.returncode == 0 and set(states.stdout.split()) == {"installed"}:
        return
    if shutil.which("apt-get") is None:
        raise DevClusterError(
            f"{' '.join(packages)} are not installed", fix="run this on Debian, as root"
        )
    # RUNLEVEL=1 keeps packages from starting their services, which would occupy ports.
    quiet = {"DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    run(["apt-get", "update", "-q"], extra_env=quiet, fix=REGISTRY_FIX)
    install = ["apt-get", "install", "-q", "-y", "--no-install-recommends", *packages]
    run(install, extra_env=quiet, timeout=INSTALL_SECONDS, fix=REGISTRY_FIX)


def _environment(software: Software, folder: Path) -> Environment:
    writer = software.writer
    classpath = folder / "classpath"
    variables = {"CLASSPATH": classpath.read_text().strip()} if classpath.exists() else {}
    match writer.suffix:
        case ".py":
            python = folder / "venv" / "bin" / "python"
            return Environment(
                (str(python) if python.exists() else sys.executable, str(writer)), variables
            )
        case ".java":
            # A JDK compiles and runs a single file. Spark and Arrow need access to internals of the
            # JDK.
            opens = [
                f"--add-opens=java.base/{name}=ALL-UNNAMED"
                for name in ("java.nio", "java.lang", "sun.nio.ch")
            ]
            return Environment(("java", *opens, str(writer)), variables)
        case ".go":
            program = folder / "writer"
            run(
                ["go", "build", "-o", program, "."],
                cwd=software.folder,
                timeout=INSTALL_SECONDS,
                fix=REGISTRY_FIX,
            )
            return Environment((str(program),))
        case ".mjs":
            # Node.js looks for modules beside the file that imports them.
            return Environment(("node", str(shutil.copy(writer, folder))))
        case _:
            return Environment(("bash", str(writer)), variables)
