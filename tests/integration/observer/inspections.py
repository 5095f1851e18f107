"""What the worker concludes about an observed launch."""

from temporalio.testing import ActivityEnvironment

from activities.watching.inspect_launch import LaunchInspector
from activities.watching.launch_reader import LaunchReader
from activities.watching.pod_shape import shape_of_job
from inferrun.kube.client import KubeClient
from inferrun.kube.runs import RunStore
from inferrun.run_defaults import Defaults
from tests.integration.control.pods import INSTALLATION
from tests.integration.observer.launches import ObservedLaunch
from tests.unit.launches import is_of_shim
from tests.unit.objects import snapshot
from workflows.messages import InspectInput, LaunchReport


def inspection_of(launch: ObservedLaunch, *, pod_uid: str) -> InspectInput:
    """The question about the launch and that Pod."""
    return InspectInput(
        run=launch.run,
        job_name=launch.job["metadata"]["name"],
        job_uid=launch.job_uid,
        snapshot=snapshot().model_dump_json(),
        pod_shape=shape_of_job(launch.job),
        pod_uid=pod_uid,
    )


async def inspect(
    api: KubeClient, launch: ObservedLaunch, *, pod_uid: str, node_lost_seconds: int = 300
) -> LaunchReport:
    """The answer."""
    reader = LaunchReader(
        api, RunStore(api), is_signer=is_of_shim, defaults=lambda: Defaults(node_lost_seconds=node_lost_seconds)
    )
    inspector = LaunchInspector(api, RunStore(api), reader, installation=INSTALLATION)
    question = inspection_of(launch, pod_uid=pod_uid)
    report: LaunchReport = await ActivityEnvironment().run(inspector.inspect_launch, question)
    return report
