"""`python -m tools.supply_chain release|verify --registry HOST/PATH --version VERSION --key KEY`:
the command line."""

import argparse
import sys
from collections.abc import Sequence

from tools.devcluster.console import error as print_error
from tools.devcluster.console import info
from tools.devcluster.errors import DevClusterError
from tools.supply_chain.release import CHART, Release, build, publish, verify


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 1 if the release could not be built, published or verified."""
    parser = argparse.ArgumentParser(prog="python -m tools.supply_chain", description=__doc__)
    parser.add_argument("action", choices=("release", "verify"))
    parser.add_argument("--registry", required=True, help="host of the registry and a path on it")
    parser.add_argument("--version", required=True, help="version without a leading v")
    parser.add_argument(
        "--key", default="", help="key of cosign; without one, a release is built but not pushed"
    )
    given = parser.parse_args(arguments)
    release = Release(given.registry, given.version)
    try:
        _execute(given.action, release, key=given.key)
    except DevClusterError as failure:
        for line in (failure.detail, f"error: {failure.message}", f"fix:   {failure.fix}"):
            print_error(line)
        return 1
    return 0


def _execute(action: str, release: Release, *, key: str) -> None:
    given = {
        "REGISTRY": release.registry,
        "VERSION": release.version,
        "KEY": key or action == "release",
    }
    if missing := [name for name, value in given.items() if not value]:
        raise DevClusterError(
            f"{missing[0]} is not set",
            fix="set REGISTRY=<host>/<path>, VERSION=<version> and KEY=<file>",
        )
    if action == "verify":
        for repository, digest in verify(release, key=key).items():
            info(f"  verified {release.reference(repository, digest)}")
        return
    for name, digest in build(release).items():
        info(f"  built {name}: {digest}")
    if not key:
        info("  nothing was pushed, because KEY is not set")
        return
    for repository, digest in publish(release, key=key).items():
        info(f"  published {release.reference(repository, digest)}")
    info(
        f"helm install inferrun oci://{release.registry}/{CHART} --version {release.version}"
        " -n inferrun-system --create-namespace --set temporal.address=HOST:PORT"
    )


if __name__ == "__main__":
    sys.exit(main())
