"""Which of KServe's kinds the API server serves, and in which version.

Discovery needs no permissions beyond those of every authenticated client. The answer is remembered for a while, because KServe
can be installed, upgraded and removed at any time.
"""

import asyncio
import json
from typing import Final

from inferrun.kserve import GROUP, KINDS, Kind
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import Resource

REMEMBERED_SECONDS: Final = 30.0


class KServeKinds:
    """One instance per process."""

    def __init__(self, api: KubeClient) -> None:
        self._api = api
        self._found: dict[str, Resource] = {}
        self._read_at: float | None = None
        self._lock = asyncio.Lock()

    async def find(self, kind: str) -> Resource | None:
        """The resource of the kind in the preferred version that is served; None if there is none. Raises KubeError."""
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
    versions = [str(version.get("version", "")) for version in group.get("versions") or []]
    plurals = {version: await _plurals(api, version) for version in versions if _is_read(version)}
    found = {kind.name: _preferred(kind, plurals) for kind in KINDS.values()}
    return {name: resource for name, resource in found.items() if resource is not None}


def _is_read(version: str) -> bool:
    return any(version in kind.versions for kind in KINDS.values())


async def _plurals(api: KubeClient, version: str) -> frozenset[str]:
    try:
        listed = json.loads(await api.text(f"/apis/{GROUP}/{version}"))
    except NotFound:  # it was removed meanwhile
        return frozenset()
    return frozenset(str(resource.get("name", "")) for resource in listed.get("resources") or [])


def _preferred(kind: Kind, plurals: dict[str, frozenset[str]]) -> Resource | None:
    version = next((one for one in kind.versions if kind.plural in plurals.get(one, ())), None)
    return Resource(f"{GROUP}/{version}", kind.plural, is_free_form=True) if version is not None else None
