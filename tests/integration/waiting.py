"""Waiting for what the servers do by themselves."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from inferrun.kube.client import KubeClient
from inferrun.kube.objects import QUOTAS, Object, Resource

WAIT_SECONDS = 90

T = TypeVar("T")


async def eventually(
    look: Callable[[], Awaitable[T | None]], *, what: str | Callable[[], str]
) -> T:
    """What `look` finds, once it finds something."""
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        found = await look()
        if found is not None:
            return found
        said = what if isinstance(what, str) else what()
        assert time.monotonic() < deadline, f"waited {WAIT_SECONDS} s for {said}"
        await asyncio.sleep(0.05)


async def until(
    look: Callable[[], Awaitable[Any]],
    is_so: Callable[[Any], object] = bool,
    *,
    seconds: float = 120,
) -> None:
    """Wait until what is looked at fulfils a condition, or fail."""
    deadline = time.monotonic() + seconds
    while not is_so(await look()):
        assert time.monotonic() < deadline, f"not within {seconds} s"
        await asyncio.sleep(0.05)


async def create_quota(
    api: KubeClient, namespace: str, name: str, kind: Resource, *, hard: int
) -> Object:
    """Create a quota for objects of a kind, and return it once it is in force and has counted them.

    The quota controller counts from a cache, which may not have seen the newest object yet; then it
    counts again minutes later, or when the limits change. So an unrelated limit is changed every
    two seconds.
    """
    group = kind.group_version.rpartition("/")[0]
    counted = f"count/{kind.plural}.{group}" if group else f"count/{kind.plural}"
    body = {"metadata": {"name": name}, "spec": {"hard": {counted: str(hard)}}}
    stored = await api.create(QUOTAS, namespace, body)
    changed = time.monotonic()

    async def is_in_force() -> bool | None:
        nonlocal changed
        status = (await api.get(QUOTAS, namespace, name)).get("status") or {}
        used = str(len((await api.list(kind, namespace))["items"]))
        if (status.get("hard") or {}).get(counted) == str(hard) and (status.get("used") or {}).get(
            counted
        ) == used:
            return True
        if time.monotonic() > changed + 2:
            changed = time.monotonic()
            unrelated = {"services.nodeports": str(1000 + int(changed))}
            await api.patch(QUOTAS, namespace, name, {"spec": {"hard": unrelated}})
        return None

    await eventually(is_in_force, what=f"the quota to count {kind.plural}")
    return stored
