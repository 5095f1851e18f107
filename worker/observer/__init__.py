"""Watches the Jobs and Pods of the installation, reports on the runs' statuses and signals the runs' workflows."""

from worker.observer.cluster_jobs import ClusterJobs
from worker.observer.observer import Leadership, Observer
from worker.observer.run_signals import RunSignals, SignalNotSent
from worker.observer.status_writer import StatusWriter
from worker.observer.workload_watch import WorkloadWatch

__all__ = ["ClusterJobs", "Leadership", "Observer", "RunSignals", "SignalNotSent", "StatusWriter", "WorkloadWatch"]
