"""A run's ConfigMap: the contract and the snapshot, written once and then only read.

Who finds a ConfigMap of that name owned by the run takes what is in it, whatever config and settings say by now.
"""

from activities.rules import manifests
from activities.rules.snapshot import Compiled, Refusal, read_snapshot
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AlreadyExists, Forbidden, Invalid, KubeError, NotFound
from inferrun.kube.objects import CONFIG_MAPS, Object
from inferrun.names import job_base_name
from inferrun.reasons import Reason
from inferrun.run_ref import RunRef
from inferrun.text import one_line


async def write_config_map(api: KubeClient, run: RunRef, compiled: Compiled, *, installation: str) -> Compiled:
    """Write it, or take what is there: an earlier try of ours. Raises `Refusal` where the name is somebody else's."""
    name = compiled.base_name
    body = manifests.config_map(run, compiled, installation=installation)
    try:
        await api.create(CONFIG_MAPS, run.namespace, body)
    except AlreadyExists:
        stored = await api.get(CONFIG_MAPS, run.namespace, name)
        if not is_owned(stored, run):
            raise taken("ConfigMap", name) from None
        return _read(stored)
    except (Invalid, Forbidden) as error:
        raise not_created("ConfigMap", name, error) from error
    return compiled


async def find_config_map(api: KubeClient, run: RunRef) -> Compiled | None:
    """What the run was started with, or None where it has not been."""
    try:
        stored = await api.get(CONFIG_MAPS, run.namespace, job_base_name(run.name, run.uid))
    except NotFound:
        return None
    return _read(stored) if is_owned(stored, run) else None


def _read(stored: Object) -> Compiled:
    """What is in it; one that somebody else wrote in our name is refused."""
    try:
        return read_snapshot(stored["data"])
    except (KeyError, TypeError, ValueError):
        raise taken("ConfigMap", stored["metadata"]["name"]) from None


def is_owned(stored: Object, run: RunRef) -> bool:
    """Whether an object belongs to the run of that UID."""
    return any(owner.get("uid") == run.uid for owner in stored["metadata"].get("ownerReferences") or [])


def not_created(kind: str, name: str, error: KubeError) -> Refusal:
    """The API server takes the object never (its form is wrong), or not now (a quota, an admission)."""
    said = one_line(str(error))
    if isinstance(error, Invalid):
        return Refusal(Reason.INVALID_SPEC, f"the API server refuses {kind} {name}: {said}", waits=False)
    reason = Reason.QUOTA_EXCEEDED if "exceeded quota" in said else Reason.POD_REJECTED
    return Refusal(reason, f"{kind} {name} is not admitted: {said}")


def taken(kind: str, name: str) -> Refusal:
    """A foreign object stands where ours must: never overwritten."""
    text = (
        f"a {kind} {name!r} that is not this run's is in its namespace; delete or rename it, then create the run again"
    )
    return Refusal(Reason.NAME_TAKEN, text, waits=False)
