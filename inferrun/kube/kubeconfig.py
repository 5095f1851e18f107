"""Finds the cluster of a user as kubectl does."""

import os
from pathlib import Path

from inferrun.kube.errors import NotConfigured


def selected_kubeconfig(named: Path | None) -> Path | None:
    """The kubeconfig of this process; KUBECONFIG may be a list of files. None stands for the
    cluster that this Pod runs in.

    Raises NotConfigured.
    """
    usual, listed = Path.home() / ".kube" / "config", os.environ.get("KUBECONFIG")
    kubeconfig = named or (Path(listed) if listed else usual if usual.exists() else None)
    if kubeconfig is None and "KUBERNETES_SERVICE_HOST" not in os.environ:
        raise NotConfigured("no cluster is selected")
    if kubeconfig is not None and not any(
        Path(part).is_file() for part in str(kubeconfig).split(os.pathsep)
    ):
        raise NotConfigured(f"the file {kubeconfig} does not exist")
    return kubeconfig
