"""The NetworkPolicy for Pods of runs, copied from the namespace of the release into that of a run
before its first Job."""

import time

from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NOT_ADMITTED
from inferrun.kube.objects import NETWORK_POLICIES
from inferrun.launches.launch_blocked import not_admitted

SECONDS = 60
"""Seconds after which a copy is made again, because the policy may have changed, or the namespace
been deleted and created."""


class NetworkPolicyCopier:
    """Copies the policy `name` from the namespace `home`; no name: nothing is copied."""

    def __init__(self, api: KubeClient, *, name: str, home: str) -> None:
        self._api = api
        self._name = name
        self._home = home
        self._copied: dict[str, float] = {}

    async def copy_to(self, namespace: str) -> None:
        """Make sure that the namespace has a recent copy. Raises LaunchBlocked if the API server
        does not accept it."""
        now = time.monotonic()
        if (
            not self._name
            or namespace == self._home
            or self._copied.get(namespace, -SECONDS) > now - SECONDS
        ):
            return
        policy = await self._api.find(NETWORK_POLICIES, self._home, self._name)
        if policy is None:  # the release was upgraded without one
            return
        labels = {wellknown.LABEL_MANAGED_BY: wellknown.MANAGED_BY}
        kind = {"apiVersion": NETWORK_POLICIES.group_version, "kind": "NetworkPolicy"}
        body = {**kind, "metadata": {"name": self._name, "labels": labels}, "spec": policy["spec"]}
        try:
            await self._api.apply(NETWORK_POLICIES, namespace, body)
        except NOT_ADMITTED as error:
            raise not_admitted(f"NetworkPolicy {self._name}", error, may_pass=True) from error
        self._copied[namespace] = now
