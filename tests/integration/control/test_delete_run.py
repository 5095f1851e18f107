"""`DeleteRun` on a real API server."""

import pytest
from temporalio.testing import ActivityEnvironment

from activities.cluster.events import EventRecorder
from activities.delete_run import RunDeleter
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import NotFound
from inferrun.kube.objects import RUNS
from inferrun.kube.runs import RunStore
from tests.integration.control.conftest import MakeRun
from workflows.messages import DeleteRunInput


async def test_a_run_is_deleted_by_its_uid_and_once(api: KubeClient, make_run: MakeRun) -> None:
    deleter = RunDeleter(api, RunStore(api), events=EventRecorder(api, reporter="tests"))
    ref = (await make_run()).ref
    other = DeleteRunInput(run=ref.model_copy(update={"uid": "00000000-0000-0000-0000-000000000000"}))
    await ActivityEnvironment().run(deleter.delete_run, other)
    assert await api.get(RUNS, ref.namespace, ref.name)
    for _ in range(2):
        await ActivityEnvironment().run(deleter.delete_run, DeleteRunInput(run=ref))
    with pytest.raises(NotFound):
        await api.get(RUNS, ref.namespace, ref.name)
