"""Signals reach the run's workflow and its recovery on a real Temporal server; a workflow that is not there is no error."""

from workflows.signals import Ended, Started

STARTED = Started(job_uid="job", launch=2, pod_uid="pod", started_at="2026-11-21T08:00:00Z")
ENDED = Ended(job_uid="job", launch=2)
