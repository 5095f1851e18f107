"""Finds where the model of a run answers, if the run may refer to the object that serves it."""

from control.cluster.granted import may_refer
from control.trust.grants import refusal
from inferrun.client.kserve_models import KServeModels
from inferrun.kserve import ModelAddress
from inferrun.kube.client import KubeClient
from inferrun.kube.objects import Object
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.launches.snapshot import WantedService
from inferrun.reasons import Reason


class ModelReader:
    def __init__(self, api: KubeClient) -> None:
        self._api = api
        self._models = KServeModels(api)

    async def find(self, service: WantedService, *, namespace: str) -> ModelAddress:
        """Where the model answers, for a run of that namespace. Raises LaunchBlocked as
        `KServeModels` does, and unless the run may refer to the object, which is checked before
        every Job: a grant may be withdrawn.
        """
        kind, own, other = service.kind, namespace, service.namespace
        if not await may_refer(
            self._api, kind=kind, from_namespace=own, to_namespace=other, name=service.name
        ):
            field = "spec.kserve.serviceRef.namespace of the InferenceConfig"
            text = refusal(kind=kind, field=field, from_namespace=own, to_namespace=other)
            raise LaunchBlocked(Reason.MODEL_NAMESPACE_NOT_ALLOWED, text, service=service)
        return await self._models.find(service)

    async def read(self, service: WantedService) -> Object:
        """The object. Raises LaunchBlocked if it does not exist or cannot be read."""
        return await self._models.read(service)
