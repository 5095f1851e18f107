"""Links into the Temporal UI."""

from urllib.parse import quote


def workflow_url(base: str, *, namespace: str, workflow_id: str, run_id: str) -> str | None:
    """The page of a workflow execution, None if the UI's address is not known. Slashes in the id are percent-encoded."""
    if not base or not workflow_id:
        return None
    page = f"{base.rstrip('/')}/namespaces/{quote(namespace, safe='')}/workflows/{quote(workflow_id, safe='')}"
    return f"{page}/{quote(run_id, safe='')}/history" if run_id else page
