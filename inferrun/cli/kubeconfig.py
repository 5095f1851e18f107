"""Connects a command to the cluster of the user, selected as in kubectl, and reports why it failed."""

import argparse
import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Final

from inferrun.cli import USAGE_ERROR
from inferrun.kube.client import KubeClient, connect
from inferrun.kube.errors import KubeError, NotConfigured

FAILED: Final = 1

FIX: Final = "select a cluster as in kubectl: --kubeconfig FILE, KUBECONFIG or ~/.kube/config, and --context NAME"


class CommandFailed(Exception):
    """The command was not executed; `fix` is what the user can do about it."""

    def __init__(self, message: str, *, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


def run_in_cluster(words: argparse.Namespace, work: Callable[[KubeClient, str], Awaitable[int]]) -> int:
    """Execute a command with a client for the user's cluster and a description of where that was found; returns the exit code."""

    async def execute() -> int:
        kubeconfig = _selected(words.kubeconfig)
        try:
            api = await connect(kubeconfig=kubeconfig, context=words.context)
        except OSError as error:
            raise NotConfigured(str(error)) from error
        try:
            return await work(api, f"kubeconfig {kubeconfig}" if kubeconfig else "the cluster of this Pod")
        finally:
            await api.close()

    try:
        return asyncio.run(execute())
    except NotConfigured as error:
        code, fix, message = USAGE_ERROR, FIX, str(error)
    except CommandFailed as error:
        code, fix, message = FAILED, error.fix, str(error)
    except (KubeError, OSError) as error:
        fix = "check the connection and your permissions, then run the same command again"
        code, message = FAILED, str(error)
    sys.stderr.write(f"error: {message}\nfix:   {fix}\n")
    return code


def find_kubeconfig(named: Path | None, *, environment: Mapping[str, str], home: Path) -> Path | None:
    """The kubeconfig according to kubectl's rules, or None. KUBECONFIG may be a list of files."""
    if named is not None:
        return named
    if environment.get("KUBECONFIG"):
        return Path(environment["KUBECONFIG"])
    usual = home / ".kube" / "config"
    return usual if usual.exists() else None


def _selected(named: Path | None) -> Path | None:
    kubeconfig = find_kubeconfig(named, environment=os.environ, home=Path.home())
    if kubeconfig is None and "KUBERNETES_SERVICE_HOST" not in os.environ:
        raise NotConfigured("no cluster is selected")
    if kubeconfig is not None and not any(Path(part).is_file() for part in str(kubeconfig).split(os.pathsep)):
        raise NotConfigured(f"the file {kubeconfig} does not exist")
    return kubeconfig
