"""What the reconciler reads: the Jobs, Pods and runs of the installation, from caches. `WorkloadWatch` fills them."""

from collections.abc import Iterable
from typing import Protocol

from activities.judging.pod_end import PodEnd
from control.informer import Key
from inferrun.kube.objects import Object
from inferrun.run_ref import RunRef


class Workloads(Protocol):
    """The caches. None of the methods makes a request."""

    def job(self, key: Key) -> Object | None:
        """The Job of that key."""

    def run_of(self, ref: RunRef) -> Object | None:
        """The run, if it has not finished and has that UID."""

    def pods_of(self, job_uid: str) -> tuple[Object, ...]:
        """The Job's Pods that are not terminal."""

    def remembered_ends(self, job_uid: str) -> tuple[PodEnd, ...]:
        """How other Pods of the Job ended."""

    def job_keys(self) -> Iterable[Key]:
        """The keys of all Jobs."""

    def all_runs(self) -> Iterable[Object]:
        """The runs that have not finished."""
