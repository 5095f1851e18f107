"""A run's ConfigMap with its contract and snapshot, written once and read ever after.

It is in the namespace of users, who can delete it and create another one of its name. Its content
applies only if it is what a worker wrote for this run: whatever the config and the settings say
now, and whoever owns the object. Users cannot write the run's status, which has the digest of its
texts.
"""

import base64
import binascii
import logging
from collections.abc import Mapping

from control.cluster.signers import Signatures
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NOT_ADMITTED, AlreadyExists
from inferrun.kube.objects import CONFIG_MAPS, Object, controller_of, template_spec_of
from inferrun.kube.runs import RunStore
from inferrun.launches import manifests
from inferrun.launches.launch_blocked import LaunchBlocked, name_taken, not_admitted
from inferrun.launches.manifests import CONTAINER
from inferrun.launches.run_texts import CONTRACT_KEY, SNAPSHOT_KEY, hash_of, texts_of
from inferrun.launches.snapshot import CompiledRun, Snapshot
from inferrun.names import job_base_name
from inferrun.resources import InferenceRun
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef

logger = logging.getLogger(__name__)


class ConfigMaps:
    def __init__(self, api: KubeClient, signatures: Signatures) -> None:
        self._api = api
        self._signatures = signatures

    async def write(self, run: RunRef, compiled: CompiledRun) -> CompiledRun:
        """Create it, or return what an earlier try wrote. Raises LaunchBlocked if another one has
        its name."""
        name = compiled.config_map
        body = manifests.config_map(run, compiled, installation=self._signatures.installation)
        try:
            await self._api.create(
                CONFIG_MAPS, run.namespace, self._signatures.signed(body, run=run)
            )
        except AlreadyExists:
            stored = await self._api.get(CONFIG_MAPS, run.namespace, name)
            if texts_of(stored.get("data")) == compiled.texts and controller_of(stored) == run.uid:
                return compiled
            if not compiled.map_name and await self._signatures.is_ours(stored, run=run):
                return _read(run, stored)
            raise name_taken("ConfigMap", name) from None
        except NOT_ADMITTED as error:
            raise not_admitted(f"ConfigMap {name}", error) from error
        return compiled

    async def find_signed(self, run: RunRef) -> CompiledRun | None:
        """The run that a worker compiled while its status does not say so yet; None without a
        ConfigMap of ours."""
        stored = await self._api.find(CONFIG_MAPS, run.namespace, _name(run))
        return (
            _read(run, stored)
            if stored is not None and await self._signatures.is_ours(stored, run=run)
            else None
        )

    async def find_or_restore(self, run: InferenceRun, *, snapshot: str) -> CompiledRun | None:
        """The compiled run; None if the run was not started, or if its ConfigMap is gone.

        A ConfigMap that was deleted is written again if its workflow remembers the snapshot. Raises
        LaunchBlocked if it was replaced.
        """
        found = await find_config_map(self._api, run)
        remembered = {CONTRACT_KEY: _published_contract(run), SNAPSHOT_KEY: snapshot}
        if found is not None or not snapshot or not is_start_of(run, remembered):
            return found
        return await self.write(run.ref, CompiledRun.read(remembered, base_name=_name(run.ref)))


async def find_config_map(api: KubeClient, run: InferenceRun) -> CompiledRun | None:
    """The compiled run; None if the run was not started, or if its ConfigMap is gone. Raises
    LaunchBlocked if it was replaced."""
    if not run.status.snapshot_hash:
        return None
    stored = await api.find(CONFIG_MAPS, run.metadata.namespace, _name(run.ref))
    if stored is None:
        return None
    if not is_start_of(run, texts_of(stored.get("data"))):
        raise name_taken("ConfigMap", _name(run.ref))
    return _read(run.ref, stored)


async def find_snapshot(
    api: KubeClient, runs: RunStore, run: RunRef, *, remembered: str
) -> Snapshot | None:
    """What the run was started with besides its contract: as its workflow remembers it, else as its
    ConfigMap has it. None if it was not started, or if that cannot be read any more.
    """
    if remembered:
        return Snapshot.model_validate_json(remembered)
    current = await runs.read(run)
    try:
        compiled = await find_config_map(api, current) if current is not None else None
    except LaunchBlocked as blocker:
        logger.warning("the run's snapshot cannot be read", extra={"error": str(blocker)})
        return None
    return compiled.snapshot if compiled is not None else None


def is_start_of(run: InferenceRun, texts: Mapping[str, str]) -> bool:
    """Whether these are the texts with which the run was started, according to its status."""
    return run.status.snapshot_hash == hash_of(texts)


def read_from_job(job: Object, run: InferenceRun, *, defaults: Defaults) -> CompiledRun:
    """What a run executes whose ConfigMap is gone or cannot be read: the contract from the run's
    status, the image from the Job's template, which is immutable, and the limits from the run and
    the current settings. It is enough to follow the Job; another launch is compiled from the config
    again.
    """
    template = template_spec_of(job)
    images = [
        str(one.get("image", ""))
        for one in template.get("containers") or []
        if one.get("name") == CONTAINER
    ]
    image, limits = next(iter(images), ""), run.spec
    snapshot = Snapshot(
        image=image,
        is_our_runner=image == defaults.runner_image,
        is_dry_run=bool(limits.dry_run),
        pending_timeout_seconds=limits.pending_timeout_seconds or 0,
        backoff_limit=limits.backoff_limit
        if limits.backoff_limit is not None
        else defaults.backoff_limit,
        max_disruptions=defaults.max_disruptions,
        deadline_margin_seconds=defaults.deadline_margin_seconds,
        ttl_seconds_after_finished=defaults.job_ttl_seconds,
        krateo_post_limit_bytes=defaults.krateo_post_limit_bytes,
        foreign_log_tail=defaults.foreign_log_tail,
    )
    return CompiledRun(_name(run.ref), _published_contract(run), snapshot)


def _published_contract(run: InferenceRun) -> str:
    try:
        return base64.b64decode(run.status.contract or "", validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _read(run: RunRef, stored: Object) -> CompiledRun:
    """The content of a ConfigMap that was recognised. Another version may have written what this
    one cannot read."""
    try:
        return CompiledRun.read(texts_of(stored.get("data")), base_name=_name(run))
    except (KeyError, ValueError, RecursionError):
        raise name_taken("ConfigMap", _name(run)) from None


def _name(run: RunRef) -> str:
    return job_base_name(run.name, run.uid)
