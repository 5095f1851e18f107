"""Kubernetes Events on runs, for the turning points that users see in `kubectl describe`."""

import hashlib

from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import KubeError
from inferrun.kube.objects import EVENTS, Object
from inferrun.reasons import Reason
from inferrun.run_ref import RunRef
from inferrun.text import one_line
from inferrun.timestamps import rfc3339, utc_now

MESSAGE_LIMIT = 1000
"""Characters of an Event's message; the API server accepts 1,024."""


class EventRecorder:
    """Creates Events in the name of one worker, `reporter`."""

    def __init__(self, api: KubeClient, *, reporter: str) -> None:
        self._api = api
        self._reporter = reporter

    async def record(self, run: RunRef, *, reason: Reason, message: str, is_warning: bool) -> None:
        """Create an Event on the run. The same reason and message create it once; an error is ignored, because Events
        are a courtesy and the status carries the same information.
        """
        event = event_for(run, reason, message, is_warning=is_warning, reporter=self._reporter, now=rfc3339(utc_now()))
        try:
            await self._api.create(EVENTS, run.namespace, event)
        except KubeError:
            return


def event_for(run: RunRef, reason: Reason, message: str, *, is_warning: bool, reporter: str, now: str) -> Object:
    """The Event object; its name is derived from its content, so that creating it again finds the first one."""
    digest = hashlib.sha256(f"{run.uid} {reason} {message}".encode()).hexdigest()[:16]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{run.name[:230]}.{digest}", "namespace": run.namespace},
        "involvedObject": {
            "apiVersion": wellknown.API_VERSION,
            "kind": wellknown.RUN_KIND,
            "name": run.name,
            "namespace": run.namespace,
            "uid": run.uid,
        },
        "reason": str(reason),
        "message": one_line(message, limit=MESSAGE_LIMIT),
        "type": "Warning" if is_warning else "Normal",
        "source": {"component": "inferrun"},
        "reportingComponent": f"{wellknown.DOMAIN}/worker",
        "reportingInstance": reporter[:128],
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
