"""Whether a launch ended because its run was suspended, from what the run's status says. Pure."""

from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun
from inferrun.timestamps import rfc3339
from workflows.messages import Verdict, VerdictKind


def suspension_of(run: InferenceRun, *, job_uid: str) -> Verdict | None:
    """The verdict on the launch whose Job has that UID; None unless the status says that it was the last one before the run was
    suspended.
    """
    status = run.status
    if status.phase is not Phase.SUSPENDED or status.job_status is None or status.job_status.uid != job_uid:
        return None
    last = max(status.attempts or [], key=lambda attempt: attempt.launch, default=None)
    if last is None or last.reason != Reason.SUSPENDED or last.launch != status.ended_launches:
        return None
    return Verdict(
        kind=VerdictKind.SUSPENDED,
        reason=Reason.SUSPENDED,
        message=last.message or "the run was suspended by spec.suspend",
        started_at=rfc3339(last.start_time) if last.start_time else None,
        finished_at=rfc3339(last.completion_time) if last.completion_time else None,
        pod_name=last.pod_name or "",
        node_name=last.node_name or "",
    )
