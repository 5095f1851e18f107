"""A run's ConfigMap with its contract and snapshot, written once and read ever after.

It is in the namespace of users, who can delete it and create another one of its name. Its content applies only if it is
what a worker wrote for this run: whatever the config and the settings say now, and whoever owns the object.
"""

from activities.cluster.signatures import Signatures
from activities.installation import Installation
from activities.rules import manifests
from activities.rules.known_start import KnownStart, texts_of
from activities.rules.launch_blocked import creation_rejected, name_taken
from activities.rules.object_metadata import controller_of
from activities.rules.snapshot import CONTRACT_KEY, SNAPSHOT_KEY, CompiledRun, read_snapshot
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AdmissionUnavailable, AlreadyExists, Forbidden, Invalid, NotFound
from inferrun.kube.objects import CONFIG_MAPS, Object
from inferrun.names import job_base_name
from inferrun.resources import InferenceRun
from inferrun.run_ref import RunRef


class ConfigMaps:
    """Those of the runs of an installation."""

    def __init__(self, api: KubeClient, *, installation: Installation) -> None:
        self._api = api
        self._installation = installation.id
        self._signatures = Signatures(api, installation=installation)

    async def write(self, run: RunRef, compiled: CompiledRun) -> CompiledRun:
        """Create it, or return what an earlier try wrote. Raises LaunchBlocked if another one has its name."""
        name = compiled.config_map
        body = manifests.config_map(run, compiled, installation=self._installation)
        try:
            await self._api.create(CONFIG_MAPS, run.namespace, self._signatures.signed(body, run=run))
        except AlreadyExists:
            stored = await self._api.get(CONFIG_MAPS, run.namespace, name)
            if texts_of(stored.get("data")) == compiled.texts and controller_of(stored) == run.uid:
                return compiled
            if not compiled.map_name and await self._signatures.is_ours(stored, run=run):
                return _read(run, stored)
            raise name_taken("ConfigMap", name) from None
        except (Invalid, Forbidden, AdmissionUnavailable) as error:
            raise creation_rejected("ConfigMap", name, error) from error
        return compiled

    async def find_signed(self, run: RunRef) -> CompiledRun | None:
        """What a worker wrote for a run whose status does not say so yet; None if there is nothing."""
        stored = await _get(self._api, run)
        if stored is None or not await self._signatures.is_ours(stored, run=run):
            return None
        return _read(run, stored)

    async def find_or_restore(self, run: InferenceRun, *, snapshot: str) -> CompiledRun | None:
        """What the run was started with; None if it was not, or if that is gone.

        A ConfigMap that was deleted is written again if its workflow remembers the snapshot. Raises LaunchBlocked if
        it was replaced.
        """
        found = await find_config_map(self._api, run)
        known = KnownStart.of(run)
        remembered = {CONTRACT_KEY: known.contract, SNAPSHOT_KEY: snapshot}
        if found is not None or not snapshot or not known.recognises(remembered):
            return found
        return await self.write(run.ref, read_snapshot(remembered, base_name=_name(run.ref)))


async def find_config_map(api: KubeClient, run: InferenceRun) -> CompiledRun | None:
    """What the run was started with; None if it was not, or if that is gone. Raises LaunchBlocked if it was replaced."""
    known = KnownStart.of(run)
    stored = await _get(api, run.ref) if known else None
    if stored is None:
        return None
    if not known.recognises(texts_of(stored.get("data"))):
        raise name_taken("ConfigMap", _name(run.ref))
    return _read(run.ref, stored)


async def _get(api: KubeClient, run: RunRef) -> Object | None:
    try:
        return await api.get(CONFIG_MAPS, run.namespace, _name(run))
    except NotFound:
        return None


def _read(run: RunRef, stored: Object) -> CompiledRun:
    """The content of a ConfigMap that was recognised. Another version may have written what this one cannot read."""
    try:
        return read_snapshot(texts_of(stored.get("data")), base_name=_name(run))
    except (KeyError, ValueError, RecursionError):
        raise name_taken("ConfigMap", _name(run)) from None


def _name(run: RunRef) -> str:
    return job_base_name(run.name, run.uid)
