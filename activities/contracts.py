"""A run's ConfigMap: the contract and the snapshot, written once and then only read.

Who finds a ConfigMap of that name owned by the run takes what is in it, whatever config and settings say by now.
"""

from activities import manifests
from activities.snapshot import Compiled, Refusal, read_snapshot
from inferrun.kube.api import CONFIG_MAPS, KubeApi, Object
from inferrun.kube.errors import AlreadyExists, NotFound
from inferrun.names import job_base_name
from inferrun.reasons import Reason
from workflows.calls import RunRef


async def write_config_map(api: KubeApi, run: RunRef, compiled: Compiled, *, installation: str) -> Compiled:
    """Write it, or take what is there: an earlier try of ours. Raises `Refusal` where the name is somebody else's."""
    body = manifests.config_map(run, compiled, installation=installation)
    try:
        await api.create(CONFIG_MAPS, run.namespace, body)
    except AlreadyExists:
        stored = await api.get(CONFIG_MAPS, run.namespace, compiled.base_name)
        if not is_owned(stored, run):
            raise taken("ConfigMap", compiled.base_name) from None
        return read_snapshot(stored["data"])
    return compiled


async def find_config_map(api: KubeApi, run: RunRef) -> Compiled | None:
    """What the run was started with, or None where it has not been."""
    try:
        stored = await api.get(CONFIG_MAPS, run.namespace, job_base_name(run.name, run.uid))
    except NotFound:
        return None
    return read_snapshot(stored["data"]) if is_owned(stored, run) else None


def is_owned(stored: Object, run: RunRef) -> bool:
    """Whether an object belongs to the run of that UID."""
    return any(owner.get("uid") == run.uid for owner in stored["metadata"].get("ownerReferences") or [])


def taken(kind: str, name: str) -> Refusal:
    """A foreign object stands where ours must: never overwritten."""
    text = (
        f"a {kind} {name!r} that is not this run's is in its namespace; delete or rename it, then create the run again"
    )
    return Refusal(Reason.NAME_TAKEN, text, waits=False)
