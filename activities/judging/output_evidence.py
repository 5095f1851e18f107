"""Whether the end of a launch leaves open if its output was committed. Pure.

The built-in runner leaves a result whenever it ends by itself: a success only after the commit, a failure only after it has asked
the store once more. Whoever kills it, or removes the Pod before the result was read, leaves the question open.
"""

from collections.abc import Iterable

from activities.launching.snapshot import Snapshot
from activities.objects.object_metadata import name_of
from activities.watching import pod_state
from inferrun.kube.objects import Object
from inferrun.runner_report import OutputFinding, OutputState, parse_result

NOT_STARTED = ("StartError", "ContainerCannotRun")
"""Reasons of a container that ended without having run."""


def is_unclear(
    pods: Iterable[Object], *, orphans: Iterable[Object], snapshot: Snapshot | None, may_be_unseen: bool
) -> bool:
    """Whether a container of the launch may have committed the output without leaving a readable result.

    `may_be_unseen` says whether a Pod may have run without being among `pods`. The last Pod that ran decides: it began
    after all others had ended, and looked for their commit. Of several shards, each Pod may have committed, and a shard without a
    known Pod may have had one. What orphans report does not count.
    """
    if any(_has_run(orphan) for orphan in orphans):
        return True
    known = list(pods)
    ran = [pod for pod in known if _has_run(pod)]
    if snapshot is not None and snapshot.shards > 1:
        is_unseen = may_be_unseen and len({_shard_of(pod) for pod in known}) < snapshot.shards
        return is_unseen or not all(_left_result(pod, snapshot) for pod in ran)
    last = pod_state.newest(ran)
    if last is None:
        return may_be_unseen and not known
    return not _left_result(last, snapshot)


def _shard_of(pod: Object) -> str:
    """The Job controller names a Pod after its Job, its shard and five random characters."""
    return name_of(pod).rpartition("-")[0] or name_of(pod)


def _has_run(pod: Object) -> bool:
    end = pod_state.container_end(pod)
    if end is not None:
        return end.reason not in NOT_STARTED
    return pod_state.started_at(pod) is not None


def _left_result(pod: Object, snapshot: Snapshot | None) -> bool:
    """Whether the container says how it ended: the built-in runner by its result, another image by its exit code."""
    end = pod_state.container_end(pod)
    if end is None:
        return False
    if snapshot is None or not snapshot.is_our_runner:
        return True
    result = parse_result(end.message)
    return result is not None and (end.exit_code == 0) == (result.reason is snapshot.success)


def unanswerable(snapshot: Snapshot | None) -> OutputFinding | None:
    """What can be said without asking, if nobody can be asked; None if the store can answer."""
    if snapshot is None:
        return unknown("the run's snapshot is missing, so its output cannot be found")
    if snapshot.is_dry_run:
        return OutputFinding(state=OutputState.NOT_COMMITTED, message="a dry run stores nothing")
    if not snapshot.is_our_runner:
        return unknown("only the custom image knows its output")
    if any(endpoint.end == "output" for endpoint in snapshot.endpoints):
        return unknown("a data handler cannot be asked what it has stored")
    return None


def unknown(why: str) -> OutputFinding:
    """It could not be found out."""
    return OutputFinding(state=OutputState.UNKNOWN, message=why)
