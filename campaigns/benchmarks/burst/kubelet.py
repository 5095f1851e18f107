"""Reports on Pods what a kubelet would report: their containers start, and end with the result of
the built-in runner.

The benchmark's control plane has no node. Everything else is real: the Job controller finishes the
Jobs.
"""

import asyncio
from collections.abc import Iterable

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import PODS, Object
from inferrun.launches.manifests import CONTAINER
from inferrun.reasons import Reason
from inferrun.runner_report import Output, RecordCounts, RunnerResult, dump_result
from inferrun.timestamps import rfc3339, utc_now

CONCURRENT_REPORTS = 10
"""As many requests as one kubelet with default settings has under way."""

RESULT = dump_result(
    RunnerResult(
        reason=Reason.SUCCEEDED,
        message="150 records: 150 completed, 0 failed",
        records=RecordCounts(total=150, completed=150),
        delivery="AtLeastOnce",
        output=Output(location="POST /compute/sklearnoutput"),
    )
)


class Kubelet:
    """Plays the kubelet for the Pods that it is given."""

    def __init__(self, api: KubeClient) -> None:
        self._api = api
        self._slots = asyncio.Semaphore(CONCURRENT_REPORTS)

    async def start(self, pods: Iterable[Object]) -> None:
        """The containers run."""
        running = {"running": {"startedAt": rfc3339(utc_now())}}
        await asyncio.gather(*(self._report(pod, running, phase="Running") for pod in pods))

    async def end(self, pods: Iterable[Object], *, exit_code: int = 0) -> None:
        """The containers have ended."""
        now = rfc3339(utc_now())
        ended: Object = {
            "exitCode": exit_code,
            "startedAt": now,
            "finishedAt": now,
            "reason": "Completed",
        }
        if exit_code == 0:
            ended["message"] = RESULT
        phase = "Failed" if exit_code else "Succeeded"
        await asyncio.gather(
            *(self._report(pod, {"terminated": ended}, phase=phase) for pod in pods)
        )

    async def _report(self, pod: Object, state: Object, *, phase: str) -> None:
        metadata = pod["metadata"]
        container = {
            "name": CONTAINER,
            "image": pod["spec"]["containers"][0]["image"],
            "imageID": "",
            "ready": "running" in state,
            "restartCount": 0,
            "state": state,
        }
        body = {"status": {"phase": phase, "containerStatuses": [container]}}
        async with self._slots:
            await self._api.patch(PODS, metadata["namespace"], metadata["name"], body, sub="status")
