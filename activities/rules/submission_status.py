"""The status of a submission, from the run that exists or does not. Pure."""

from activities.rules.child_runs import Match, match, result_of
from inferrun import wellknown
from inferrun.kube.objects import Object
from inferrun.reasons import Reason
from inferrun.resources import InferenceRun
from inferrun.run_ref import RunRef
from workflows.messages import SubmissionState, SubmissionStatus


def status_of(ref: RunRef, run: InferenceRun | None) -> SubmissionStatus:
    """The status of a submission whose run was created earlier; `run` is None if it no longer exists."""
    if run is None:
        return SubmissionStatus(standing=SubmissionState.GONE, run=ref, reason=Reason.RUN_DELETED)
    if run.status.is_terminal:
        return SubmissionStatus(standing=SubmissionState.ENDED, run=ref, result=result_of(run))
    return SubmissionStatus(standing=SubmissionState.UNDER_WAY, run=ref, message=run.status.message or "")


def adopted(wanted: Object, found: InferenceRun) -> SubmissionStatus:
    """The status of a submission for which a run of the wanted name exists: its own, or a rejection."""
    kind = match(wanted, found)
    if kind is Match.OTHER_REQUEST:
        return mismatched(wanted["metadata"]["annotations"][wellknown.ANNOTATION_WORKFLOW_ID])
    if kind is Match.FOREIGN:
        return rejected(
            Reason.NAME_TAKEN, f"InferenceRun {found.ref} already exists and was not created by this submission"
        )
    return status_of(found.ref, None if found.metadata.is_being_deleted else found)


def mismatched(workflow_id: str) -> SubmissionStatus:
    """The rejection of a different request with an id that was used before."""
    text = f"workflow id {workflow_id!r} was already used for a different request; an id always refers to one run, so use a new id"
    return rejected(Reason.REQUEST_MISMATCH, text)


def rejected(reason: Reason, message: str) -> SubmissionStatus:
    """A submission that creates no run."""
    return SubmissionStatus(standing=SubmissionState.REFUSED, reason=reason, message=message)
