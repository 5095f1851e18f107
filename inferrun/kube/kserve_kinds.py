"""Which of KServe's kinds the API server serves, and what a run says about an object or a kind that
is missing.

Discovery needs no permissions beyond those of every authenticated client. The answer is remembered
for a while, because KServe can be installed, upgraded and removed at any time.
"""

import asyncio
import json
from contextlib import suppress
from typing import Final

from inferrun.kserve import GROUP, KINDS
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import Resource


def missing(service: str) -> str:
    """The message about an object that does not exist; `service` is `Kind namespace/name`."""
    fix = "create it, or correct kserve.serviceRef in the InferenceConfig, and the run starts automatically"
    return f"{service} does not exist; {fix}"


def too_large(service: str, why: str) -> str:
    """The message about an object that is not parsed; `why` may end with a fix that is about
    another kind."""
    return f"{service} is not read: {why.partition(';')[0]}; reduce it and the run starts automatically"


def not_installed(kind: str) -> str:
    """The message about a kind that the API server does not serve."""
    versions = " or ".join(f"{GROUP}/{version}" for version in KINDS[kind].versions)
    return (
        f"kserve.serviceRef needs the kind {kind} ({versions}), which this cluster does not serve; install KServe and the run "
        "starts automatically, or set kserve.modelUrl in the InferenceConfig"
    )


REMEMBERED_SECONDS: Final = 30.0


class KServeKinds:
    """One instance per process."""

    def __init__(self, api: KubeClient) -> None:
        self._api = api
        self._found: dict[str, Resource] = {}
        self._read_at: float | None = None
        self._lock = asyncio.Lock()

    async def find(self, kind: str) -> Resource | None:
        """The resource of the kind in the preferred version that is served; None if no version is.
        Raises KubeError."""
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if self._read_at is None or now - self._read_at >= REMEMBERED_SECONDS:
                self._found = await served_kinds(self._api)
                self._read_at = now
        return self._found.get(kind)

    def forget(self) -> None:
        """Ask again the next time: a request has shown that the answer is outdated."""
        self._read_at = None


async def served_kinds(api: KubeClient) -> dict[str, Resource]:
    """The resources of KServe's kinds that are served, by kind. Raises KubeError."""
    try:
        group = json.loads(await api.text(f"/apis/{GROUP}"))
    except NotFound:
        return {}
    served = {str(version.get("version", "")) for version in group.get("versions") or []}
    plurals: dict[str, set[str]] = {}
    for version in served & {version for kind in KINDS.values() for version in kind.versions}:
        with suppress(NotFound):  # it was removed meanwhile
            listed = json.loads(await api.text(f"/apis/{GROUP}/{version}"))
            plurals[version] = {
                str(resource.get("name", "")) for resource in listed.get("resources") or []
            }
    found = {}
    for kind in KINDS.values():
        preferred = next(
            (version for version in kind.versions if kind.plural in plurals.get(version, ())), None
        )
        if preferred is not None:
            found[kind.name] = Resource(f"{GROUP}/{preferred}", kind.plural, is_free_form=True)
    return found
