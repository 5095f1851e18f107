"""The reference to a run's workflow in its status. Pure."""

from activities.installation import Installation
from inferrun.resources import WorkflowReference
from inferrun.temporal.ui_links import workflow_url


def workflow_reference(installation: Installation, *, workflow_id: str | None, run_id: str | None) -> WorkflowReference:
    """The reference, with a link if the UI's address is known; ids are None outside of a workflow, in tests."""
    url = workflow_url(
        installation.ui_url,
        namespace=installation.temporal_namespace,
        workflow_id=workflow_id or "",
        run_id=run_id or "",
    )
    return WorkflowReference(id=workflow_id, run_id=run_id, namespace=installation.temporal_namespace, url=url)
