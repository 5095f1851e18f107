"""The versions and flags that the cluster's programs are compiled with."""

from dataclasses import replace
from pathlib import Path

import pytest

from tools.devcluster.binaries import (
    KUBERNETES,
    KUBERNETES_VERSION,
    PAUSE,
    build_command,
    fingerprint,
    go_version,
)


@pytest.mark.parametrize(("text", "version"), [("go1.26.8\n", (1, 26)), ("go1.25rc1", (0, 0)), ("devel", (0, 0))])
def test_a_go_version_is_parsed(text: str, version: tuple[int, int]) -> None:
    assert go_version(text) == version


def test_kubernetes_is_compiled_with_its_version_and_without_symbols() -> None:
    flags = " ".join(build_command(KUBERNETES, "./cmd/kube", Path("kube")))
    assert f"version.gitVersion={KUBERNETES_VERSION}" in flags
    assert "-ldflags=-s -w " in flags


def test_other_linker_flags_are_another_build() -> None:
    assert fingerprint(PAUSE) != fingerprint(replace(PAUSE, linker_flags="-X main.version=2"))


def test_packages_that_handle_requests_are_optimized() -> None:
    flags = build_command(KUBERNETES, "./cmd/kube", Path("kube"))
    # The last matching pattern wins.
    assert (
        flags.index("-gcflags=all=-N -l") < flags.index("-gcflags=std=") < flags.index("-gcflags=k8s.io/apiserver/...=")
    )


@pytest.mark.parametrize("pattern", ["github.com/prometheus/...", "k8s.io/kubernetes/pkg/apis/..."])
def test_what_the_api_server_calls_for_each_request_is_optimized(pattern: str) -> None:
    assert f"-gcflags={pattern}=" in build_command(KUBERNETES, "./cmd/kube", Path("kube"))
