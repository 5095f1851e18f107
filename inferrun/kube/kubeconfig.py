"""Finds the cluster of a user as kubectl does."""

import os
from collections.abc import Mapping
from pathlib import Path

from inferrun.kube.errors import NotConfigured


def find_kubeconfig(named: Path | None, *, environment: Mapping[str, str], home: Path) -> Path | None:
    """The kubeconfig according to kubectl's rules, or None. KUBECONFIG may be a list of files."""
    if named is not None:
        return named
    if environment.get("KUBECONFIG"):
        return Path(environment["KUBECONFIG"])
    usual = home / ".kube" / "config"
    return usual if usual.exists() else None


def selected_kubeconfig(named: Path | None) -> Path | None:
    """The kubeconfig of this process; None stands for the cluster that this Pod runs in. Raises NotConfigured."""
    kubeconfig = find_kubeconfig(named, environment=os.environ, home=Path.home())
    if kubeconfig is None and "KUBERNETES_SERVICE_HOST" not in os.environ:
        raise NotConfigured("no cluster is selected")
    if kubeconfig is not None and not any(Path(part).is_file() for part in str(kubeconfig).split(os.pathsep)):
        raise NotConfigured(f"the file {kubeconfig} does not exist")
    return kubeconfig
