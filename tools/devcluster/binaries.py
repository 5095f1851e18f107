"""Builds the programs of the cluster from pinned Go modules, once per machine.

Each part is a folder under build/ with a go.mod of its own. What it builds lies in the cache, in a folder named after a hash
of the sources; a folder is there whole or not at all. Go's own caches keep what an interrupted build has done.
"""

import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

from .commands import last_lines, run
from .layout import LAYOUT, SOURCES, Layout
from .narration import Step, say, step
from .problem import Problem

KUBERNETES_VERSION = "v1.34.4"
GO_NEEDED = (1, 25)
GO_CURE = "install Go 1.25 or newer from https://go.dev/dl and put its bin folder on PATH"
# Without these the server calls itself v0.0.0 and clients misread what it can do.
KUBERNETES_FLAGS = (
    f"-X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}"
    " -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=34"
)


@dataclass(frozen=True)
class Part:
    """One folder under build/: `targets` maps a program's name to the package it is built from."""

    name: str
    targets: tuple[tuple[str, str], ...]
    flags: str = ""
    links: tuple[tuple[str, str], ...] = ()
    cold: str = ""

    @property
    def folder(self) -> Path:
        return SOURCES / "build" / self.name


PARTS = (
    Part(name="pause", targets=(("pause", "."),), cold="seconds"),
    Part(
        name="kubernetes",
        targets=(
            ("kube", "./cmd/kube"),
            ("coredns", "./cmd/coredns"),
            ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
            ("helm", "helm.sh/helm/v3/cmd/helm"),
        ),
        flags=KUBERNETES_FLAGS,
        links=tuple(
            (name, "kube")
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")
        ),
        cold="5 to 8 minutes",
    ),
    Part(
        name="temporal",
        targets=(("temporal", "github.com/temporalio/cli/cmd/temporal"),),
        cold="2 to 4 minutes",
    ),
)


def fingerprint(part: Part) -> str:
    """Changes exactly when the part's sources, flags or the machine's kind change."""
    digest = hashlib.sha256()
    digest.update(repr((part.targets, part.flags, part.links, platform.machine())).encode())
    for path in sorted(part.folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            digest.update(f"{path.relative_to(part.folder)}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()[:16]


def built(part: Part, *, layout: Layout = LAYOUT) -> Path:
    """Where the part's programs lie once they are built."""
    return layout.cache / "programs" / f"{part.name}-{fingerprint(part)}"


def missing(parts: tuple[Part, ...] = PARTS, *, layout: Layout = LAYOUT) -> list[Part]:
    return [part for part in parts if not built(part, layout=layout).is_dir()]


def go_version(text: str) -> tuple[int, int]:
    """`go1.26.8` is (1, 26); what is not a release is (0, 0)."""
    numbers = text.strip().removeprefix("go").split(".")
    try:
        return int(numbers[0]), int(numbers[1])
    except (IndexError, ValueError):
        return 0, 0


def need_go() -> None:
    if shutil.which("go") is None:
        raise Problem("the programs of the cluster must be built and there is no Go on PATH", cure=GO_CURE)
    # Asked where the newest is needed: Go may fetch a newer toolchain by itself there.
    version = run(["go", "env", "GOVERSION"], folder=PARTS[-1].folder, cure=GO_CURE).strip()
    if (0, 0) < go_version(version) < GO_NEEDED:
        raise Problem(f"{version} is too old", cure=GO_CURE)


def build(part: Part, *, layout: Layout = LAYOUT) -> None:
    """Build all programs of a part and put the finished folder in place in one move."""
    target = built(part, layout=layout)
    target.parent.mkdir(parents=True, exist_ok=True)
    with step(f"build {part.name} (cold: {part.cold})", announce=True) as progress:
        partial = Path(tempfile.mkdtemp(dir=target.parent, prefix=".partial-"))
        try:
            _compile(part, partial, progress)
            for link, program in part.links:
                (partial / link).symlink_to(program)
            partial.chmod(0o755)
            if not target.is_dir():
                partial.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _compile(part: Part, folder: Path, progress: Step) -> None:
    environment = {"CGO_ENABLED": "0", "GOWORK": "off"}
    progress.progress("fetching modules")
    run(["go", "mod", "download"], folder=part.folder, extra_env=environment, seconds=1800, cure=GO_CURE)
    packages = [package for _, package in part.targets]
    listed = run(["go", "list", "-deps", *packages], folder=part.folder, extra_env=environment, cure=GO_CURE)
    total = len(set(listed.split()))
    done = 0
    for name, package in part.targets:
        done = _compile_one(part, name, package, folder / name, progress, done=done, total=total)


def _compile_one(part: Part, name: str, package: str, output: Path, progress: Step, *, done: int, total: int) -> int:
    """`go build -v` names each package as it starts on it; packages that are cached are not named."""
    command = ["go", "build", "-trimpath", "-v", "-ldflags", f"-s -w {part.flags}".strip(), "-o", str(output), package]
    building = subprocess.Popen(
        command,
        cwd=part.folder,
        env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    heard: list[str] = []
    listener = threading.Thread(target=heard.extend, args=(building.stderr,), daemon=True)
    listener.start()
    try:
        while listener.is_alive():
            listener.join(timeout=1)
            progress.progress(f"{name}, {min(done + len(heard), total)} of at most {total} packages compiled")
        code = building.wait()
    except BaseException:
        building.terminate()
        raise
    if code != 0:
        raise Problem(
            f"building {name} failed", cure="read the compiler's lines above", detail=last_lines("".join(heard))
        )
    return done + len(heard)


def build_missing(*, parts: tuple[Part, ...] = PARTS, layout: Layout = LAYOUT) -> None:
    """Both cores go to one part at a time."""
    wanted = missing(parts, layout=layout)
    if not wanted:
        return
    need_go()
    for left in (layout.cache / "programs").glob(".partial-*"):
        shutil.rmtree(left, ignore_errors=True)
    for part in wanted:
        build(part, layout=layout)


def link_programs(
    *, parts: tuple[Part, ...] = PARTS, layout: Layout = LAYOUT, others: dict[str, Path] | None = None
) -> None:
    """One folder in the checkout that holds all programs, as links into the cache."""
    layout.programs.mkdir(parents=True, exist_ok=True)
    wanted = {path.name: path for part in parts for path in sorted(built(part, layout=layout).iterdir())}
    wanted.update(others or {})
    for old in layout.programs.iterdir():
        if old.name not in wanted:
            old.unlink()
    for name, program in wanted.items():
        link = layout.programs / name
        if link.is_symlink() and link.readlink() == program:
            continue
        fresh = link.with_name(f".{name}.new")
        fresh.unlink(missing_ok=True)
        fresh.symlink_to(program)
        fresh.replace(link)


def announce(parts: list[Part]) -> None:
    if parts:
        names = ", ".join(f"{part.name} ({part.cold})" for part in parts)
        say(f"  to build from Go modules, once per machine: {names}")
