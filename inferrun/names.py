"""Names of Jobs, workflows, schedules and runs that the product creates.

Every name is a pure function of what it names, so that a second writer finds the existing object
instead of creating another one. The base name of a Job must remain exactly that of the Krateo
controller.
"""

import hashlib
import re

from inferrun.run_ref import RunRef

LABEL_LIMIT = 63
"""Maximum length of a DNS-1123 label. A Job's name must be one, because its Pods carry the name as
a label."""

SUBDOMAIN_LIMIT = 253
"""Maximum length of a DNS-1123 subdomain, such as the name of an InferenceRun."""

WORKFLOW_NAME_LIMIT = 100
"""Maximum length of a run's name within a workflow id."""

SUBDOMAIN_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""A DNS-1123 subdomain, such as the name of most objects."""

LABEL_PATTERN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""A DNS-1123 label, such as the name of a namespace."""


def job_base_name(run_name: str, uid: str) -> str:
    """The name of a run's ConfigMap and first Job, such as `inf-my-run-v2-5be07ada` for
    `My.Run..v2` with UID `5be07ada-…`.

    It has at most 62 characters: 53 for `inf-` and the run's name, `-`, and eight of the UID.
    """
    stem = re.sub(r"[^a-z0-9]+", "-", f"inf-{run_name}".lower()).rstrip("-")
    stem = stem[:53].rstrip("-")
    return f"{stem}-{re.sub('[^A-Za-z0-9]', '', uid)[:8].lower()}"


def job_name(base: str, launch: int) -> str:
    """The name of the Job of a launch, which is counted from 1; at most 63 characters. Names are
    never reused."""
    if launch <= 1:
        return base
    suffix = f"-{launch}"
    return base[: LABEL_LIMIT - len(suffix)].rstrip("-") + suffix


def verify_job_name(base: str, launch: int, *, is_final: bool) -> str:
    """The name of the Job that verifies a run's output after a launch; at most 63 characters.

    It differs from the names of all launches, which end with the run's part of the UID or with
    nothing but their number after it, and between a verification that a launch may follow and the
    final one.
    """
    stem, _, uid = base.rpartition("-")
    suffix = f"-{uid}-{'final' if is_final else 'verify'}-{launch}"
    return stem[: LABEL_LIMIT - len(suffix)].rstrip("-") + suffix


def run_workflow_id(run: RunRef) -> str:
    """The id of the workflow that executes a run, or of the schedule of a scheduled run.

    Temporal's SQL stores limit ids to 255 characters, of which a schedule or cleanup needs up to
    23. A long name is truncated; the UID keeps the id unique.
    """
    return f"inferencerun/{run.namespace}/{run.name[:WORKFLOW_NAME_LIMIT].rstrip('-.')}/{run.uid}"


def cleanup_workflow_id(run_workflow: str) -> str:
    """The id of the workflow that deletes a finished run after a delay."""
    return f"{run_workflow}/cleanup"


def recover_workflow_id(run_workflow: str) -> str:
    """The id of the workflow that takes over a run whose own workflow closed before the run
    ended."""
    return f"{run_workflow}/recover"


schedule_id = run_workflow_id
"""The id of the Temporal schedule of a scheduled run."""


def is_subdomain(name: str) -> bool:
    """Whether a string is a DNS-1123 subdomain."""
    return len(name) <= SUBDOMAIN_LIMIT and re.fullmatch(SUBDOMAIN_PATTERN, name) is not None


def submitted_run_name(workflow_id: str) -> str:
    """The name of the run that a submission creates: its workflow id, or a readable form of it with
    a hash."""
    if is_subdomain(workflow_id):
        return workflow_id
    digest = hashlib.sha256(workflow_id.encode()).hexdigest()[:10]
    stem = re.sub(r"[^a-z0-9]+", "-", workflow_id.lower()).strip("-")
    stem = stem[: SUBDOMAIN_LIMIT - len(digest) - 1].rstrip("-")
    return f"{stem}-{digest}" if stem else f"run-{digest}"


def scheduled_run_name(parent: str, nominal_time: str) -> str:
    """The name of the run that a schedule creates for a nominal time (RFC 3339 in UTC with whole
    seconds).

    A long name of the schedule is truncated and gets a hash, so that two schedules never create
    runs of the same name.
    """
    suffix = re.sub(r"[^0-9]", "", nominal_time)[:14]
    limit = SUBDOMAIN_LIMIT - len(suffix) - 1
    if len(parent) > limit:
        digest = hashlib.sha256(parent.encode()).hexdigest()[:10]
        parent = f"{parent[: limit - len(digest) - 1].rstrip('-.')}-{digest}"
    return f"{parent}-{suffix}"
