"""The installation on whose behalf activities act."""

from dataclasses import dataclass, field
from typing import Any

from temporalio import activity

from activities.objects.signing_key import SigningKey
from control.ui_links import workflow_url
from inferrun.resources import WorkflowReference


@dataclass(frozen=True)
class Installation:
    """Read once when the worker starts."""

    id: str
    """The installation's id, on every object and workflow that it creates."""

    task_queue: str
    """The task queue of the worker."""

    temporal_namespace: str
    ui_url: str
    """Base URL of the Temporal UI; empty if it is not known."""

    namespace: str
    """The release's namespace, in which the workers record with which keys they sign."""

    signing_key: SigningKey = field(default_factory=SigningKey, repr=False)
    """The key of this process, which signs what it creates in users' namespaces."""

    def calling_workflow(self) -> dict[str, Any]:  # Any: a model's fields
        """The workflow of the current activity in a run's status, with a link if the UI's address is known."""
        info, namespace = activity.info(), self.temporal_namespace
        workflow_id, run_id = info.workflow_id or "", info.workflow_run_id or ""
        url = workflow_url(self.ui_url, namespace=namespace, workflow_id=workflow_id, run_id=run_id)
        return WorkflowReference(id=workflow_id, run_id=run_id, namespace=namespace, url=url).model_dump()
