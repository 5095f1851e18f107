"""Watches the Jobs and Pods of the installation, reports on the runs' statuses and signals the runs' workflows."""

from operator_shim.observer.cluster_jobs import ClusterJobs
from operator_shim.observer.observer import Observer
from operator_shim.observer.run_signals import RunSignals
from operator_shim.observer.status_writer import StatusWriter
from operator_shim.observer.workload_watch import WorkloadWatch

__all__ = ["ClusterJobs", "Observer", "RunSignals", "StatusWriter", "WorkloadWatch"]
