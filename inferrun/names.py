"""Names that outlive a process: Jobs, workflows, submitted runs.

Every name is a pure function of what it names, so that a second writer finds the first one's object instead of making
another. The rule of the Job's base name is the Krateo controller's and must stay exact.
"""

import hashlib
import re

from inferrun.run_ref import RunRef

BASE_NAME_LIMIT = 62
"""Characters of a Job's base name at most: `inf-` and the run's part (53), `-`, eight of the UID."""

LABEL_LIMIT = 63
"""Characters of a DNS-1123 label, which a Job's name must be since its Pods carry it as a label."""

SUBDOMAIN_LIMIT = 253
"""Characters of a DNS-1123 subdomain, which an InferenceRun's name must be."""

WORKFLOW_NAME_LIMIT = 100
"""Characters of a run's name in a workflow's id."""

SUBDOMAIN_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""A DNS-1123 subdomain, the form of most objects' names."""

LABEL_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""A DNS-1123 label, the form of a namespace's name."""


def job_base_name(run_name: str, uid: str) -> str:
    """The name of a run's ConfigMap and first Job: `My.Run..v2` with UID `5be07ada-…` gives `inf-my-run-v2-5be07ada`."""
    stem = re.sub(r"[^a-z0-9]+", "-", f"inf-{run_name}".lower()).rstrip("-")
    stem = stem[:53].rstrip("-")
    return f"{stem}-{re.sub('[^A-Za-z0-9]', '', uid)[:8].lower()}"


def job_name(base: str, launch: int) -> str:
    """The name of the Job of a launch, counted from 1; a name is never used twice. At most 63 characters."""
    if launch <= 1:
        return base
    suffix = f"-{launch}"
    return base[: LABEL_LIMIT - len(suffix)].rstrip("-") + suffix


def run_workflow_id(run: RunRef) -> str:
    """The id of the workflow that executes a run, or of the schedule that starts them.

    Temporal's SQL stores hold ids of 255 characters, and a schedule or a clean-up appends up to 23: a long name is cut,
    the UID keeps the id unique.
    """
    return f"inferencerun/{run.namespace}/{run.name[:WORKFLOW_NAME_LIMIT].rstrip('-.')}/{run.uid}"


def cleanup_workflow_id(run_workflow: str) -> str:
    """The id of the workflow that deletes a finished run after its delay."""
    return f"{run_workflow}/cleanup"


def recover_workflow_id(run_workflow: str) -> str:
    """The id of the workflow that takes over a run whose own workflow ended before the run did."""
    return f"{run_workflow}/recover"


def schedule_id(run: RunRef) -> str:
    """The id of the Temporal schedule of a scheduled run."""
    return run_workflow_id(run)


def is_subdomain(name: str) -> bool:
    """Whether a string is a DNS-1123 subdomain, the form of an InferenceRun's name."""
    return len(name) <= SUBDOMAIN_LIMIT and re.fullmatch(SUBDOMAIN_PATTERN, name) is not None


def submitted_run_name(workflow_id: str) -> str:
    """The name of the run that a submission makes: its workflow id, or a readable form of it with a hash."""
    if is_subdomain(workflow_id):
        return workflow_id
    digest = hashlib.sha256(workflow_id.encode()).hexdigest()[:10]
    stem = re.sub(r"[^a-z0-9]+", "-", workflow_id.lower()).strip("-")
    stem = stem[: SUBDOMAIN_LIMIT - len(digest) - 1].rstrip("-")
    return f"{stem}-{digest}" if stem else f"run-{digest}"


def scheduled_run_name(parent: str, nominal_time: str) -> str:
    """The name of a schedule's child for one nominal time, an RFC 3339 instant in UTC with whole seconds.

    A parent's name that is too long is cut and carries a hash, so that two long parents never share a child.
    """
    suffix = re.sub(r"[^0-9]", "", nominal_time)[:14]
    limit = SUBDOMAIN_LIMIT - len(suffix) - 1
    if len(parent) > limit:
        digest = hashlib.sha256(parent.encode()).hexdigest()[:10]
        parent = f"{parent[: limit - len(digest) - 1].rstrip('-.')}-{digest}"
    return f"{parent}-{suffix}"
