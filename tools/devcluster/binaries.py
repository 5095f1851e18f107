"""Compiles the cluster's programs from pinned Go modules, once per machine.

Each module is a directory under build/ with its own go.mod. The result is cached in a directory
named after a hash of the sources, which is put in place only when it is complete. Go's own caches
keep the results of an interrupted build.

Only the packages that handle requests (`optimized`) are compiled with optimisation; all others take
a third less time without it. Without any optimisation, the API server and Temporal use about twice
as much CPU time per run. The libraries and the packages for the built-in kinds matter, too: without
them, a Job's life costs the API server a quarter more.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from .commands import last_lines, run
from .console import Step, step
from .errors import DevClusterError
from .layout import LAYOUT, SOURCES, Layout

KUBERNETES_VERSION = "v1.34.4"
REQUIRED_GO = (1, 25)
GO_FIX = "install Go 1.25 or newer from https://go.dev/dl and add its bin directory to PATH"
# Without these flags the server reports v0.0.0 and clients misjudge its features.
KUBERNETES_LINKER_FLAGS = (
    f"-X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}"
    " -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=34"
)
UNOPTIMIZED = "all=-N -l"
"""Compiler flags for all packages, unless a later pattern overrides them."""
OPTIMIZED = ("std", "google.golang.org/...", "golang.org/x/net/...")
"""Patterns of packages that are compiled with optimisation in every module."""
GO_ENV = {"CGO_ENABLED": "0", "GOWORK": "off"}


@dataclass(frozen=True)
class GoModule:
    """A directory under build/. `targets` are pairs of a program's name and its package; `links`
    are aliases of programs."""

    name: str
    targets: tuple[tuple[str, str], ...]
    linker_flags: str = ""
    links: tuple[tuple[str, str], ...] = ()
    optimized: tuple[str, ...] = ()
    """Patterns of further packages that are compiled with optimisation."""
    tags: str = ""
    """Go's build tags."""
    cost: float = 0.0
    """Core-seconds that a cold build takes; for the progress display."""

    @property
    def folder(self) -> Path:
        return SOURCES / "build" / self.name

    @property
    def step_name(self) -> str:
        return f"compile {self.name}"


PAUSE = GoModule(name="pause", targets=(("pause", "."),), cost=10)
KUBERNETES = GoModule(
    name="kubernetes",
    targets=(
        ("kube", "./cmd/kube"),
        ("coredns", "./cmd/coredns"),
        ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
        ("helm", "helm.sh/helm/v3/cmd/helm"),
    ),
    linker_flags=KUBERNETES_LINKER_FLAGS,
    links=tuple(
        (name, "kube")
        for name in (
            "kube-apiserver",
            "kube-controller-manager",
            "kube-scheduler",
            "kubelet",
            "kube-proxy",
        )
    ),
    optimized=(
        *(
            "golang.org/x/...",
            "go.opentelemetry.io/...",
            "go.uber.org/...",
            "github.com/prometheus/...",
        ),
        *(
            "github.com/gogo/...",
            "github.com/google/...",
            "github.com/grpc-ecosystem/...",
            "github.com/felixge/...",
        ),
        "github.com/cespare/...",
        *(
            "k8s.io/api/...",
            "k8s.io/apimachinery/...",
            "k8s.io/apiserver/...",
            "k8s.io/apiextensions-apiserver/...",
        ),
        *(
            "k8s.io/kube-openapi/...",
            "k8s.io/kube-aggregator/...",
            "k8s.io/component-base/...",
            "k8s.io/klog/...",
        ),
        *(
            "k8s.io/utils/...",
            "k8s.io/kubernetes/pkg/apis/...",
            "k8s.io/kubernetes/pkg/registry/...",
        ),
        *(
            "k8s.io/kubernetes/pkg/api/...",
            "k8s.io/kubernetes/pkg/quota/...",
            "k8s.io/kubernetes/plugin/...",
        ),
        *("sigs.k8s.io/...", "go.etcd.io/...", "gopkg.in/evanphx/...", "github.com/emicklei/..."),
        *("github.com/json-iterator/...", "github.com/modern-go/...", "github.com/go-logr/..."),
    ),
    cost=550,
)
TEMPORAL = GoModule(
    name="temporal",
    targets=(("temporal", "github.com/temporalio/cli/cmd/temporal"),),
    optimized=(
        *(
            "go.temporal.io/...",
            "modernc.org/...",
            "golang.org/x/...",
            "go.uber.org/...",
            "go.opentelemetry.io/...",
        ),
        *(
            "github.com/jmoiron/...",
            "github.com/dgryski/...",
            "github.com/google/...",
            "github.com/gogo/...",
        ),
        *(
            "github.com/prometheus/...",
            "github.com/grpc-ecosystem/...",
            "github.com/uber-go/...",
            "github.com/cespare/...",
        ),
    ),
    cost=210,
)
MODULES = (PAUSE, KUBERNETES, TEMPORAL)
TEMPORAL_NEXT = replace(TEMPORAL, name="temporal-next", targets=(("temporal", "."),), cost=330)
"""A newer server, whose workflows can be paused; our own program around it has the CLI's `server
start-dev`. With the variable INFERRUN_TEMPORAL=next, the cluster and the tests use it instead of
the other one.
"""
TEMPORAL_SERVER = replace(
    TEMPORAL,
    targets=(
        ("temporal-server", "go.temporal.io/server/cmd/server"),
        ("temporal-sql-tool", "go.temporal.io/server/cmd/tools/sql"),
    ),
    optimized=(*TEMPORAL.optimized, "github.com/jackc/..."),
)
"""The deployed server of the same version and its tool for database schemas: for measurements on
PostgreSQL only."""
S3 = GoModule(
    name="s3", targets=(("versitygw", "github.com/versity/versitygw/cmd/versitygw"),), cost=150
)
"""A real S3 server, for tests (`python -m tools.devcluster test-servers`) and an example image. It
is not part of the cluster."""
RCLONE = GoModule(name="rclone", targets=(("rclone", "github.com/rclone/rclone"),), cost=300)
MINIO = GoModule(name="minio", targets=(("minio", "github.com/minio/minio"),), cost=350)
SEAWEEDFS = GoModule(
    name="seaweedfs", targets=(("weed", "github.com/seaweedfs/seaweedfs/weed"),), cost=700
)
"""S3 servers of others, for `make interop` and `make soak` only, which compile what they start."""
GCS = GoModule(name="gcs", targets=(("gcs", "."),), cost=100)
"""A server of Google Cloud Storage, for tests only (`python -m tools.devcluster test-servers`)."""
KSERVE = GoModule(name="kserve", targets=(("kserve", "./cmd/kserve"),), cost=900)
"""KServe's own controllers, for `make interop` only (`python -m tools.devcluster kserve`): a cold
build takes eight minutes."""
KUEUE = GoModule(name="kueue", targets=(("kueue", "sigs.k8s.io/kueue/cmd/kueue"),), cost=300)
"""Kueue, for `make interop` only (`python -m tools.devcluster kueue`): a cold build takes three
minutes."""
COSIGN = GoModule(
    name="cosign", targets=(("cosign", "github.com/sigstore/cosign/v3/cmd/cosign"),), cost=250
)
"""Signs and verifies releases: `make release`, `make verify-release` and their test."""
REGISTRY = GoModule(name="registry", targets=(("registry", "."),), cost=90)
"""The registry of the distribution project, for the test of releases only."""
PROMETHEUS = GoModule(
    name="prometheus",
    targets=tuple(
        (name, f"github.com/prometheus/prometheus/cmd/{name}")
        for name in ("prometheus", "promtool")
    ),
    tags="remove_all_sd",
    cost=190,
)
"""For the tests of alerts and dashboards only; without the discovery of clouds and without its user
interface."""
COLLECTOR = GoModule(name="collector", targets=(("collector", "."),), cost=120)
"""An OpenTelemetry collector, for the tests of traces only."""
KSTATUS = GoModule(name="kstatus", targets=(("kstatus", "."),), cost=25)
"""What Flux concludes from an object, for the tests of definitions and statuses only."""


def chosen_temporal(older: Path, *, is_newer: bool = False, layout: Layout = LAYOUT) -> Path:
    """The program that starts a development server of Temporal: `older`, unless the newer one is
    asked for."""
    if is_newer or os.environ.get("INFERRUN_TEMPORAL") == "next":
        return program_dir(TEMPORAL_NEXT, layout=layout) / "temporal"
    return older


def module_folder(module: GoModule, path: str) -> Path:
    """The folder in Go's module cache of a module that `module` requires."""
    found = run(
        ["go", "list", "-m", "-f", "{{.Dir}}", path],
        cwd=module.folder,
        extra_env=GO_ENV,
        fix=GO_FIX,
    )
    return Path(found.strip())


def fingerprint(module: GoModule) -> str:
    """A hash of the module's sources, the build flags and the machine's architecture."""
    digest = hashlib.sha256()
    command = build_command(module, "", Path())
    digest.update(repr((command, module.targets, module.links, platform.machine())).encode())
    for path in sorted(module.folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            digest.update(f"{path.relative_to(module.folder)}\0{len(content)}\0".encode())
            digest.update(content)
    return digest.hexdigest()[:16]


def program_dir(module: GoModule, *, layout: Layout = LAYOUT) -> Path:
    """The directory of the module's programs once they have been built."""
    return layout.cache / "programs" / f"{module.name}-{fingerprint(module)}"


def missing(modules: tuple[GoModule, ...] = MODULES, *, layout: Layout = LAYOUT) -> list[GoModule]:
    return [module for module in modules if not program_dir(module, layout=layout).is_dir()]


def go_version(text: str) -> tuple[int, int]:
    """`go1.26.8` is (1, 26); anything but a release is (0, 0)."""
    numbers = text.strip().removeprefix("go").split(".")
    try:
        return int(numbers[0]), int(numbers[1])
    except (IndexError, ValueError):
        return 0, 0


def require_go() -> None:
    if shutil.which("go") is None:
        raise DevClusterError(
            "Go is required to compile the cluster's programs and is not on PATH", fix=GO_FIX
        )
    # In the module's directory, because Go may switch to the toolchain that go.mod requires.
    version = run(["go", "env", "GOVERSION"], cwd=TEMPORAL.folder, fix=GO_FIX).strip()
    if (0, 0) < go_version(version) < REQUIRED_GO:
        raise DevClusterError(f"{version} is too old", fix=GO_FIX)


def build(module: GoModule, *, layout: Layout = LAYOUT) -> None:
    """Build all programs of a module and move the complete directory into place."""
    target = program_dir(module, layout=layout)
    target.parent.mkdir(parents=True, exist_ok=True)
    with step(module.step_name) as progress:
        partial = Path(tempfile.mkdtemp(dir=target.parent, prefix=".partial-"))
        try:
            _compile(module, partial, progress)
            for link, program in module.links:
                (partial / link).symlink_to(program)
            partial.chmod(0o755)
            if not target.is_dir():
                partial.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _compile(module: GoModule, folder: Path, progress: Step) -> None:
    progress.update("downloading modules")
    run(["go", "mod", "download"], cwd=module.folder, extra_env=GO_ENV, timeout=1800, fix=GO_FIX)
    packages = [package for _, package in module.targets]
    listed = run(
        ["go", "list", "-deps", *packages], cwd=module.folder, extra_env=GO_ENV, fix=GO_FIX
    )
    total = len(set(listed.split()))
    done = 0
    for name, package in module.targets:
        done = _compile_target(
            module, name, package, folder / name, progress, done=done, total=total
        )


def build_command(module: GoModule, package: str, output: Path) -> list[str]:
    linker_flags = f"-s -w {module.linker_flags}".strip()
    # An empty list of flags for a pattern restores the compiler's default, which is to optimise.
    optimized = [f"-gcflags={pattern}=" for pattern in (*OPTIMIZED, *module.optimized)]
    flags = ["-trimpath", "-v", f"-gcflags={UNOPTIMIZED}", *optimized, f"-ldflags={linker_flags}"]
    flags += [f"-tags={module.tags}"] * bool(module.tags)
    return ["go", "build", *flags, "-o", str(output), package]


def _compile_target(
    module: GoModule,
    name: str,
    package: str,
    output: Path,
    progress: Step,
    *,
    done: int,
    total: int,
) -> int:
    """`go build -v` prints the name of each package that it compiles; cached packages are not
    printed."""
    building = subprocess.Popen(
        build_command(module, package, output),
        cwd=module.folder,
        env={**os.environ, **GO_ENV},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    output_lines: list[str] = []
    reader = threading.Thread(target=output_lines.extend, args=(building.stderr,), daemon=True)
    reader.start()
    try:
        while reader.is_alive():
            reader.join(timeout=1)
            compiled = min(done + len(output_lines), total)
            progress.update(f"{name}, {compiled}/{total} packages", fraction=compiled / total)
        code = building.wait()
    except BaseException:
        building.terminate()
        raise
    finally:
        if building.stderr is not None:
            building.stderr.close()
    if code != 0:
        raise DevClusterError(
            f"building {name} failed",
            fix="see the compiler's output above",
            detail=last_lines("".join(output_lines)),
        )
    return done + len(output_lines)


def build_missing(*, modules: tuple[GoModule, ...] = MODULES, layout: Layout = LAYOUT) -> None:
    """Build one module after the other; each uses all cores. Another process that builds is waited
    for."""
    if not missing(modules, layout=layout):
        return
    require_go()
    programs = layout.cache / "programs"
    programs.mkdir(parents=True, exist_ok=True)
    with (programs / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for leftover in programs.glob(".partial-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        for module in missing(modules, layout=layout):
            build(module, layout=layout)


def link_programs(
    *,
    modules: tuple[GoModule, ...] = MODULES,
    layout: Layout = LAYOUT,
    others: dict[str, Path] | None = None,
) -> None:
    """Make the checkout's program directory contain exactly these programs, as links into the
    cache."""
    layout.programs.mkdir(parents=True, exist_ok=True)
    programs = {
        path.name: path
        for module in modules
        for path in sorted(program_dir(module, layout=layout).iterdir())
    }
    programs.update(others or {})
    for old in layout.programs.iterdir():
        if old.name not in programs:
            old.unlink()
    for name, program in programs.items():
        link = layout.programs / name
        if link.is_symlink() and link.readlink() == program:
            continue
        replacement = link.with_name(f".{name}.new")
        replacement.unlink(missing_ok=True)
        replacement.symlink_to(program)
        replacement.replace(link)
