"""Signs what is created in users' namespaces, and recognises there what a worker of the installation has created.

Users may create objects with any name, owner and label. Each worker process has a key of its own, and records the public part in
a Lease in the release's namespace, which users cannot write. So a worker recognises what an earlier process signed, although no
private key is stored or survives its process. Without the record, it recognises only what it signed itself, and refuses the rest.
"""

from contextlib import suppress
from datetime import datetime

from activities.installation import Installation
from activities.rules.object_metadata import name_of, uid_of
from activities.rules.signature import signed, signer_of_object
from activities.signing_key import SigningKey
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AlreadyExists, NotFound
from inferrun.kube.objects import JOBS, LEASES, Object
from inferrun.run_ref import RunRef
from inferrun.timestamps import rfc3339

RECORD = "inferrun-signers"
"""Name of the Lease. Releases of one namespace share it: they have the same operator."""

MAX_SIGNERS = 500
"""Processes whose keys are kept, the latest ones. A signature matters until the status of its run says what it was started with."""


class Signatures:
    """Of one worker process."""

    def __init__(self, api: KubeClient, *, installation: Installation) -> None:
        self._api = api
        self._key = installation.signing_key
        self._namespace = installation.namespace

    def signed(self, body: Object, *, run: RunRef) -> Object:
        """The object with our signature."""
        return signed(body, run=run, key=self._key)

    async def is_ours(self, stored: Object, *, run: RunRef) -> bool:
        """Whether a worker created an object of this name for the run, if it is a ConfigMap with these texts. Whoever may read
        the object can copy its signature.
        """
        signer = signer_of_object(stored, run=run)
        if not signer or signer == self._key.signer:
            return bool(signer)
        try:
            return signer in _signers(await self._api.get(LEASES, self._namespace, RECORD))
        except NotFound:
            return False

    async def replace_job(self, stored: Object, body: Object, *, run: RunRef) -> Object | None:
        """Delete a Job of ours and create this one; None if it is not ours. Raises Conflict if it has changed since it was read."""
        if not await self.is_ours(stored, run=run):
            return None
        version = str(stored["metadata"]["resourceVersion"])
        with suppress(NotFound):
            await self._api.delete(JOBS, run.namespace, name_of(stored), uid=uid_of(stored), version=version)
        return await self._api.create(JOBS, run.namespace, body)


async def record_signer(api: KubeClient, key: SigningKey, *, namespace: str, now: datetime) -> None:
    """Record the public key of this process, before it signs anything. Raises KubeError."""
    own = {"annotations": {f"{wellknown.ANNOTATION_SIGNER}{key.signer}": rfc3339(now)}}
    try:
        await api.create(LEASES, namespace, {"metadata": {"name": RECORD, **own}, "spec": {}})
    except AlreadyExists:
        recorded = _signers(await api.patch(LEASES, namespace, RECORD, {"metadata": own}))
        oldest = sorted(recorded, key=lambda signer: recorded[signer])[:-MAX_SIGNERS]
        if oldest:
            forgotten = {f"{wellknown.ANNOTATION_SIGNER}{signer}": None for signer in oldest}
            await api.patch(LEASES, namespace, RECORD, {"metadata": {"annotations": forgotten}})


def _signers(record: Object) -> dict[str, str]:
    """The recorded public keys, and when their processes started."""
    annotations = record["metadata"].get("annotations") or {}
    prefix = wellknown.ANNOTATION_SIGNER
    return {key.removeprefix(prefix): value for key, value in annotations.items() if key.startswith(prefix)}
