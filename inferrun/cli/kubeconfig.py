"""Connects a command to the cluster of the user, selected as in kubectl."""

import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from inferrun.kube.client import KubeClient, connect
from inferrun.kube.errors import NotConfigured

FIX: Final = "select a cluster as in kubectl: --kubeconfig FILE, KUBECONFIG or ~/.kube/config, and --context NAME"


def find_kubeconfig(named: Path | None, *, environment: Mapping[str, str], home: Path) -> Path | None:
    """The kubeconfig according to kubectl's rules, or None. KUBECONFIG may be a list of files."""
    if named is not None:
        return named
    if environment.get("KUBECONFIG"):
        return Path(environment["KUBECONFIG"])
    usual = home / ".kube" / "config"
    return usual if usual.exists() else None


@asynccontextmanager
async def user_cluster(named: Path | None, *, context: str | None) -> AsyncIterator[tuple[KubeClient, str]]:
    """A client for the user's cluster, and a description of where it was found. Raises NotConfigured."""
    kubeconfig = _selected(named)
    api = await connect(kubeconfig=kubeconfig, context=context)
    try:
        yield api, f"kubeconfig {kubeconfig}" if kubeconfig else "the cluster of this Pod"
    finally:
        await api.close()


def _selected(named: Path | None) -> Path | None:
    """The existing kubeconfig to use; None in a Pod without one. Raises NotConfigured."""
    kubeconfig = find_kubeconfig(named, environment=os.environ, home=Path.home())
    if kubeconfig is None and "KUBERNETES_SERVICE_HOST" not in os.environ:
        raise NotConfigured("no cluster is selected")
    if kubeconfig is not None and not any(Path(part).is_file() for part in str(kubeconfig).split(os.pathsep)):
        raise NotConfigured(f"the file {kubeconfig} does not exist")
    return kubeconfig


def report_error(message: str, *, fix: str) -> None:
    """Print an error with its fix."""
    sys.stderr.write(f"error: {message}\nfix:   {fix}\n")
