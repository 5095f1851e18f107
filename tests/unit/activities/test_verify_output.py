"""The verification of an output while the cluster does not admit what it needs."""

import base64
from dataclasses import replace
from datetime import timedelta

import pytest
from temporalio.testing import ActivityEnvironment

from activities.verify_output import OutputVerifier
from inferrun.kube.errors import Forbidden, NotFound
from inferrun.kube.objects import CONFIG_MAPS, Object, Resource
from inferrun.kube.runs import RunStore
from inferrun.launches.compilation import compile_run
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.launches.run_texts import hash_of
from inferrun.launches.verification_timing import VERIFICATION
from inferrun.run_defaults import Defaults
from inferrun.runner_report import OutputState
from tests.unit.activities.api_servers import StoredObjects
from tests.unit.launches import INSTALLATION
from tests.unit.objects import config, run
from workflows.messages import VerifyInput, VerifyResult

COMPILED = compile_run(run(), config(), defaults=Defaults(), runner_account="")


class FullNamespace(StoredObjects):
    """The run's ConfigMap was deleted, and a quota does not allow another one."""

    def __init__(self) -> None:
        contract = base64.b64encode(COMPILED.contract_json.encode()).decode()
        status = {"phase": "Running", "contract": contract, "snapshotHash": hash_of(COMPILED.texts)}
        super().__init__(
            inferenceruns=run(status=status).model_dump(
                mode="json", by_alias=True, exclude_none=True
            )
        )

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        if resource is CONFIG_MAPS:
            raise NotFound("deleted")
        return await super().get(resource, namespace, name)

    async def create(
        self, resource: Resource, namespace: str | None, body: Object, **params: str
    ) -> Object:
        raise Forbidden("exceeded quota: small, requested: count/configmaps=1")


async def verify(*, since_seconds: float) -> VerifyResult:
    """`since_seconds`: how long ago it was first tried."""
    api = FullNamespace()
    verifier = OutputVerifier(api, RunStore(api), installation=INSTALLATION)
    environment = ActivityEnvironment()
    started = environment.info.scheduled_time + timedelta(seconds=since_seconds)
    environment.info = replace(environment.info, started_time=started)
    request = VerifyInput(run=run().ref, launch=1, attempt=1, snapshot=COMPILED.snapshot_json)
    result: VerifyResult = await environment.run(verifier.verify_output, request)
    return result


async def test_a_config_map_that_is_not_admitted_is_tried_again() -> None:
    with pytest.raises(LaunchBlocked, match="exceeded quota"):
        await verify(since_seconds=0)


async def test_a_config_map_that_is_not_admitted_for_minutes_leaves_the_output_unknown() -> None:
    finding = (await verify(since_seconds=VERIFICATION.admission + 1)).finding
    assert finding is not None
    assert finding.state is OutputState.UNKNOWN
    assert "exceeded quota" in finding.message
