"""Reads the object of KServe that serves a run's model, and finds where the model answers.

Only the API server is asked: no request is ever sent to the model.
"""

from typing import Final

from inferrun.kserve import (
    GROUP,
    UNREADABLE,
    ModelAddress,
    Needs,
    Never,
    NotYet,
    Other,
    resolve,
)
from inferrun.kserve.answer import Stored, Unreadable
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Forbidden, NotFound
from inferrun.kube.kserve_kinds import KServeKinds, missing, not_installed, too_large
from inferrun.kube.objects import SERVICES, Object, Resource, unreadable_because
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.launches.snapshot import WantedService
from inferrun.reasons import Reason
from inferrun.text import one_line

OTHER_RESOURCES: Final = {
    "services": SERVICES,
    "deployments": Resource("apps/v1", "deployments", is_free_form=True),
    "llminferenceserviceconfigs": Resource(
        f"{GROUP}/v1alpha1", "llminferenceserviceconfigs", is_free_form=True
    ),
    "servingruntimes": Resource(f"{GROUP}/v1alpha1", "servingruntimes", is_free_form=True),
    "clusterservingruntimes": Resource(
        f"{GROUP}/v1alpha1", "clusterservingruntimes", is_free_form=True
    ),
}


class KServeModels:
    """The objects of KServe that one API server has."""

    def __init__(self, api: KubeClient) -> None:
        self._api = api
        self._kinds = KServeKinds(api)

    async def find(self, service: WantedService) -> ModelAddress:
        """Where the model answers. Raises LaunchBlocked while it does not answer, or if it never
        will.
        """
        item = await self.read(service)
        others: dict[Other, Stored | Unreadable | None] = {}
        answer = resolve(item, service.wanted, others, now=self._api.now())
        while isinstance(answer, Needs):
            others[answer.other] = await self._read_other(answer.other)
            answer = resolve(item, service.wanted, others, now=self._api.now())
        if isinstance(answer, NotYet):
            unwatched = answer.is_other
            raise LaunchBlocked(
                Reason.MODEL_NOT_READY, answer.message, service=service, is_unwatched=unwatched
            )
        if isinstance(answer, Never):
            raise LaunchBlocked(
                Reason.MODEL_FAILED, answer.message, is_retryable=False, service=service
            )
        return answer

    async def read(self, service: WantedService) -> Object:
        """The object. Raises LaunchBlocked if it does not exist or cannot be read."""
        resource = await self._kinds.find(service.kind)
        if resource is None:
            raise LaunchBlocked(
                Reason.KSERVE_NOT_INSTALLED, not_installed(service.kind), service=service
            )
        try:
            found = await self._api.get(resource, service.namespace, service.name)
        except Forbidden as error:
            text = f"{service} is not accessible to this installation: {one_line(str(error))}"
            raise LaunchBlocked(
                Reason.MODEL_NAMESPACE_NOT_ALLOWED, text, service=service
            ) from error
        except NotFound:
            self._kinds.forget()  # the kind may be gone, too
            raise LaunchBlocked(
                Reason.MODEL_NOT_READY, missing(str(service)), service=service
            ) from None
        if why := unreadable_because(found):
            raise LaunchBlocked(
                Reason.MODEL_NOT_READY, too_large(str(service), why), service=service
            )
        return {**found, "kind": service.kind}

    async def _read_other(self, other: Other) -> Stored | Unreadable | None:
        resource = OTHER_RESOURCES[other.plural]
        try:
            found = await self._api.find(resource, other.namespace or None, other.name)
        except Forbidden:
            return UNREADABLE
        return UNREADABLE if found is not None and unreadable_because(found) else found
