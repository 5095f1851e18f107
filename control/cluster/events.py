"""Kubernetes Events on runs and configs, for the turning points that users see in `kubectl
describe`."""

import hashlib
import logging
from dataclasses import dataclass

from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AlreadyExists, KubeError
from inferrun.kube.objects import EVENTS
from inferrun.reasons import Reason
from inferrun.run_ref import RunRef
from inferrun.text import one_line
from inferrun.timestamps import rfc3339

logger = logging.getLogger(__name__)

MESSAGE_LIMIT = 1000
"""Characters of an Event's message; the API server accepts 1,024."""


@dataclass(frozen=True)
class Subject:
    """The object that an Event is about: a run or a config."""

    kind: str
    namespace: str
    name: str
    uid: str


class EventRecorder:
    """Creates Events in the name of one process, `reporter`, of a `component`: worker or shim."""

    def __init__(self, api: KubeClient, *, reporter: str, component: str = "worker") -> None:
        self._api = api
        self._reporter = reporter
        self._component = component

    async def record(self, run: RunRef, *, reason: Reason, message: str, is_warning: bool) -> None:
        """Create an Event on the run. The same reason and message create it once; an error is
        ignored, because Events are a courtesy and the status carries the same information.
        """
        subject = Subject(wellknown.RUN_KIND, run.namespace, run.name, run.uid)
        await self.record_on(subject, reason=reason, message=message, is_warning=is_warning)

    async def record_on(
        self, subject: Subject, *, reason: Reason, message: str, is_warning: bool
    ) -> None:
        """Create an Event on a run or a config, in the same way."""
        # The name is derived from the content, so that creating the Event again finds the first
        # one.
        digest = hashlib.sha256(f"{subject.uid} {reason} {message}".encode()).hexdigest()[:16]
        now = rfc3339(self._api.now())
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{subject.name[:230]}.{digest}", "namespace": subject.namespace},
            "involvedObject": {
                "apiVersion": wellknown.API_VERSION,
                "kind": subject.kind,
                "name": subject.name,
                "namespace": subject.namespace,
                "uid": subject.uid,
            },
            "reason": str(reason),
            "message": one_line(message, limit=MESSAGE_LIMIT),
            "type": "Warning" if is_warning else "Normal",
            "source": {"component": "inferrun"},
            "reportingComponent": f"{wellknown.DOMAIN}/{self._component}",
            "reportingInstance": self._reporter[:128],
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self._api.create(EVENTS, subject.namespace, event)
        except AlreadyExists:
            return
        except KubeError as error:
            fields = {"kind": subject.kind, "namespace": subject.namespace, "object": subject.name}
            logger.info(
                "an Event was not created",
                extra={**fields, "reason": str(reason), "error": str(error)[:500]},
            )
