"""Signs what is created in users' namespaces or sent through Temporal, and recognises what a
process of ours has signed.

Users may create objects with any name, owner and label. Each process of shim and worker has a key
of its own, and records the public part in a Lease in the release's namespace, which users cannot
write. So a worker recognises what another process signed, although no private key is stored or
survives its process. Without the record, it recognises only what it signed itself, and refuses the
rest.
"""

import asyncio
import logging
from contextlib import suppress

from control.trust.identity import Installation, SigningKey
from control.trust.signatures import signed, signer_of_object
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import AlreadyExists, KubeError, NotFound
from inferrun.kube.objects import JOBS, LEASES, Object, annotations_of, name_of, uid_of
from inferrun.run_ref import RunRef
from inferrun.timestamps import rfc3339

logger = logging.getLogger(__name__)

RECORD = "inferrun-signers"
"""Name of the Lease. Releases of one namespace share it: they have the same operator."""

MAX_SIGNERS = 500
"""Processes whose keys are kept, the latest ones. A signature matters until the status of its run
says what it was started with."""

RECORD_SECONDS = 2.0
"""The seconds between two tries of a process that starts to record its key."""


class Signatures:
    """The signatures of one worker process; `installation` is the id of the one that it belongs
    to."""

    def __init__(self, api: KubeClient, *, installation: Installation) -> None:
        self._api = api
        self._key = installation.signing_key
        self._namespace = installation.namespace
        self._known = {installation.signing_key.signer}
        self.installation = installation.id

    def signed(self, body: Object, *, run: RunRef) -> Object:
        return signed(body, run=run, key=self._key)

    async def is_ours(self, stored: Object, *, run: RunRef) -> bool:
        """Whether a worker created an object of this name for the run, if it is a ConfigMap with
        these texts. Whoever may read the object can copy its signature.
        """
        signer = signer_of_object(stored, run=run)
        return bool(signer) and await self.is_signer(signer)

    async def is_signer(self, signer: str) -> bool:
        """Whether the public key is that of a process of ours. The ones that are recorded are read
        again for an unknown one."""
        if (
            signer not in self._known
            and (record := await self._api.find(LEASES, self._namespace, RECORD)) is not None
        ):
            self._known |= _signers(record).keys()
        return signer in self._known

    async def replace_job(self, stored: Object, body: Object, *, run: RunRef) -> Object | None:
        """Delete a Job of ours and create this one; None if it is not ours. Raises Conflict if it
        has changed since it was read."""
        if not await self.is_ours(stored, run=run):
            return None
        version = str(stored["metadata"]["resourceVersion"])
        with suppress(NotFound):
            await self._api.delete(
                JOBS, run.namespace, name_of(stored), uid=uid_of(stored), version=version
            )
        return await self._api.create(JOBS, run.namespace, body)


async def record_signer(api: KubeClient, key: SigningKey, *, namespace: str) -> None:
    """Record the public key of this process, before it signs anything; returns once the API server
    has accepted it."""
    while True:
        try:
            own = {
                "annotations": {f"{wellknown.ANNOTATION_SIGNER}{key.signer}": rfc3339(api.now())}
            }
            try:
                await api.create(
                    LEASES, namespace, {"metadata": {"name": RECORD, **own}, "spec": {}}
                )
            except AlreadyExists:
                recorded = _signers(await api.patch(LEASES, namespace, RECORD, {"metadata": own}))
                oldest = sorted(recorded, key=lambda signer: recorded[signer])[:-MAX_SIGNERS]
                if oldest:
                    forgotten = {
                        f"{wellknown.ANNOTATION_SIGNER}{signer}": None for signer in oldest
                    }
                    await api.patch(
                        LEASES, namespace, RECORD, {"metadata": {"annotations": forgotten}}
                    )
            return
        except KubeError as error:
            logger.warning(
                "the key of this process cannot be recorded yet", extra={"error": str(error)[:500]}
            )
            await asyncio.sleep(RECORD_SECONDS)


def _signers(record: Object) -> dict[str, str]:
    annotations = annotations_of(record)
    prefix = wellknown.ANNOTATION_SIGNER
    return {
        key.removeprefix(prefix): value
        for key, value in annotations.items()
        if key.startswith(prefix)
    }
