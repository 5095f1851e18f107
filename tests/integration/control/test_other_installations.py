"""The warning about another installation that serves the same namespaces, from Jobs on a real API
server."""

import logging

import pytest

from control.installation import warn_of_others
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import JOBS, Object

LABEL = wellknown.LABEL_INSTALLATION


def job(name: str, **labels: str) -> Object:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "none"}]}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"suspend": True, "template": {"spec": pod}},
    }


async def test_an_installation_with_unfinished_jobs_in_the_same_namespace_is_named_at_start(
    api: KubeClient, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    await api.create(JOBS, namespace, job("own", **{LABEL: "own.uid"}))
    await api.create(
        JOBS, namespace, job("ended", **{LABEL: "former.uid", wellknown.LABEL_ENDED: "true"})
    )
    await api.create(JOBS, namespace, job("of-nobody"))
    with caplog.at_level(logging.WARNING):
        await warn_of_others(api, watched=Namespaces((namespace,)), installation="own.uid")
    assert caplog.messages == []
    for number in range(2):
        await api.create(JOBS, namespace, job(f"other-{number}", **{LABEL: "other.uid"}))
    with caplog.at_level(logging.WARNING):
        await warn_of_others(api, watched=Namespaces((namespace,)), installation="own.uid")
    [message] = caplog.messages
    assert f"the installation other.uid has Jobs in namespace {namespace}" in message
    assert "watchNamespace" in message
