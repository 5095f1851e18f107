"""The installation on whose behalf activities act."""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from temporalio import activity

from activities.objects.signing_key import SigningKey
from inferrun.resources import WorkflowReference


@dataclass(frozen=True)
class Installation:
    """Read once when the worker starts."""

    id: str
    """The installation's id, on every object and workflow that it creates."""

    task_queue: str
    temporal_namespace: str
    ui_url: str
    """Base URL of the Temporal UI; empty if it is not known."""

    namespace: str
    """The release's namespace, in which the workers record with which keys they sign."""

    signing_key: SigningKey = field(default_factory=SigningKey, repr=False)
    """The key of this process, which signs what it creates in users' namespaces."""

    def workflow_reference(self, *, workflow_id: str | None, run_id: str | None) -> WorkflowReference:
        """The reference to a workflow in a run's status, with a link if the UI's address is known; slashes are percent-encoded."""
        url = None
        if self.ui_url and workflow_id:
            namespace, identity = quote(self.temporal_namespace, safe=""), quote(workflow_id, safe="")
            url = f"{self.ui_url.rstrip('/')}/namespaces/{namespace}/workflows/{identity}"
            url = f"{url}/{quote(run_id, safe='')}/history" if run_id else url
        return WorkflowReference(id=workflow_id, run_id=run_id, namespace=self.temporal_namespace, url=url)

    def calling_workflow(self) -> dict[str, Any]:  # Any: a model's fields
        """The reference to the workflow of the current activity."""
        info = activity.info()
        return self.workflow_reference(workflow_id=info.workflow_id, run_id=info.workflow_run_id).model_dump()
