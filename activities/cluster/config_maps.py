"""A run's ConfigMap with its contract and snapshot, written once and read ever after.

If a ConfigMap with the run's base name exists and is owned by the run, its content applies, whatever the config and the
settings say now.
"""

from activities.rules import manifests
from activities.rules.launch_blocked import creation_rejected, name_taken
from activities.rules.object_metadata import is_owned_by, name_of
from activities.rules.snapshot import CompiledRun, read_snapshot
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AlreadyExists, Forbidden, Invalid, NotFound
from inferrun.kube.objects import CONFIG_MAPS, Object
from inferrun.names import job_base_name
from inferrun.run_ref import RunRef


async def write_config_map(api: KubeClient, run: RunRef, compiled: CompiledRun, *, installation: str) -> CompiledRun:
    """Create it, or return what an earlier attempt of ours wrote. Raises LaunchBlocked."""
    name = compiled.base_name
    body = manifests.config_map(run, compiled, installation=installation)
    try:
        await api.create(CONFIG_MAPS, run.namespace, body)
    except AlreadyExists:
        stored = await api.get(CONFIG_MAPS, run.namespace, name)
        if not is_owned_by(stored, run):
            raise name_taken("ConfigMap", name) from None
        return _read(stored)
    except (Invalid, Forbidden) as error:
        raise creation_rejected("ConfigMap", name, error) from error
    return compiled


async def find_config_map(api: KubeClient, run: RunRef) -> CompiledRun | None:
    """What the run was started with, or None if it has not been started. Raises LaunchBlocked if it is not ours."""
    try:
        stored = await api.get(CONFIG_MAPS, run.namespace, job_base_name(run.name, run.uid))
    except NotFound:
        return None
    return _read(stored) if is_owned_by(stored, run) else None


def _read(stored: Object) -> CompiledRun:
    """The content; a ConfigMap that claims to be owned by the run but was not written by us is rejected."""
    try:
        return read_snapshot(stored["data"])
    except (KeyError, TypeError, ValueError):
        raise name_taken("ConfigMap", name_of(stored)) from None
