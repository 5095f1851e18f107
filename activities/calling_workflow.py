"""The workflow on whose behalf an activity acts."""

from typing import Any

from temporalio import activity

from control.trust.identity import Installation


def calling_workflow(installation: Installation) -> dict[str, Any]:  # Any: a model's fields
    """The reference to it in a run's status."""
    info = activity.info()
    return installation.workflow_reference(
        workflow_id=info.workflow_id, run_id=info.workflow_run_id
    ).model_dump()
