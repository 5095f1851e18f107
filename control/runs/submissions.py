"""The runs that the front door creates for programs, and what a submission learns about its run.
Pure.

A run created for a program carries the id of its submission and a hash of the request, so that the
same id finds the same run.
"""

from inferrun import wellknown
from inferrun.kube.objects import Object
from inferrun.names import submitted_run_name
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun
from inferrun.run_ref import RunRef
from inferrun.run_result import result_of
from inferrun.submission import Submission
from workflows.messages import SubmissionState, SubmissionStatus


def submitted_run(submission: Submission, *, workflow_id: str) -> Object:
    metadata: Object = {
        "name": submitted_run_name(workflow_id),
        "namespace": submission.namespace,
        "annotations": {
            wellknown.ANNOTATION_WORKFLOW_ID: workflow_id,
            wellknown.ANNOTATION_REQUEST_HASH: submission.request_hash,
        },
    }
    if submission.labels:
        metadata["labels"] = dict(submission.labels)
    return run_object(metadata, submission.run_spec())


def submission_status(ref: RunRef, run: InferenceRun | None) -> SubmissionStatus:
    """The status of a submission whose run was created earlier; `run` is None if it no longer
    exists."""
    if run is None:
        return SubmissionStatus(standing=SubmissionState.GONE, run=ref, reason=Reason.RUN_DELETED)
    if run.status.is_terminal:
        return SubmissionStatus(standing=SubmissionState.ENDED, run=ref, result=result_of(run))
    return SubmissionStatus(
        standing=SubmissionState.UNDER_WAY, run=ref, message=run.status.message or ""
    )


def adopted(wanted: Object, found: InferenceRun) -> SubmissionStatus:
    """The status of a submission for which a run of the wanted name exists: its own, or a
    rejection."""
    metadata, annotations = wanted["metadata"], found.metadata.annotations
    schedule, is_same_request = metadata.get("labels", {}).get(wellknown.LABEL_SCHEDULE_UID), True
    if schedule is not None:
        is_own = found.metadata.labels.get(wellknown.LABEL_SCHEDULE_UID) == schedule
    else:
        keys = (wellknown.ANNOTATION_WORKFLOW_ID, wellknown.ANNOTATION_REQUEST_HASH)
        is_own, is_same_request = (
            annotations.get(key) == metadata["annotations"][key] for key in keys
        )
    if not is_own:
        text = f"InferenceRun {found.ref} already exists and was not created by this submission"
        return rejected(Reason.NAME_TAKEN, text)
    if not is_same_request:
        return mismatched(metadata["annotations"][wellknown.ANNOTATION_WORKFLOW_ID])
    if found.status.reason == Reason.EXECUTED_BEFORE:  # nobody can wait for its end
        return rejected(Reason.EXECUTED_BEFORE, found.status.message or "")
    return submission_status(found.ref, None if found.metadata.is_being_deleted else found)


def mismatched(workflow_id: str) -> SubmissionStatus:
    """The rejection of a different request with an id that was used before."""
    text = f"workflow id {workflow_id!r} was already used for a different request; an id always refers to one run, so use a new id"
    return rejected(Reason.REQUEST_MISMATCH, text)


def rejected(reason: Reason, message: str) -> SubmissionStatus:
    return SubmissionStatus(standing=SubmissionState.REFUSED, reason=reason, message=message)


def run_object(metadata: Object, spec: Object) -> Object:
    """An InferenceRun that is about to be created."""
    return {
        "apiVersion": wellknown.API_VERSION,
        "kind": wellknown.RUN_KIND,
        "metadata": metadata,
        "spec": spec,
    }
