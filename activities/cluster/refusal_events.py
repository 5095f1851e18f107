"""Events that say which installation serves a namespace instead of this one."""

from activities.cluster.events import EventRecorder, Subject
from inferrun.control.territory import Refusal
from inferrun.kube.claims import CLUSTER_PLACE, NAME
from inferrun.reasons import Reason


class RefusalEvents:
    """Records them in the namespace concerned, on the Lease of the claim; for all namespaces, in kube-system."""

    def __init__(self, events: EventRecorder) -> None:
        self._events = events

    async def report(self, refusal: Refusal) -> None:
        """Record one; an error is ignored, because the log has the same message."""
        namespace = refusal.namespace or CLUSTER_PLACE
        subject = Subject("Lease", namespace, NAME, uid="", api_version="coordination.k8s.io/v1")
        message = str(refusal)
        await self._events.record_on(subject, reason=Reason.NAMESPACE_SERVED, message=message, is_warning=True)
