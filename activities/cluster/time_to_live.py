"""How long a run's Jobs are kept after their end: what the run was started with, or the installation's setting."""

from activities.cluster.config_maps import find_config_map
from activities.rules.launch_blocked import LaunchBlocked
from inferrun.kube.client import KubeClient
from inferrun.resources import InferenceRun


async def read_time_to_live(api: KubeClient, run: InferenceRun, *, default: int) -> int:
    """Seconds; `default` if the run's snapshot is gone or cannot be read."""
    try:
        compiled = await find_config_map(api, run)
    except LaunchBlocked:
        return default
    return compiled.snapshot.ttl_seconds_after_finished if compiled is not None else default
