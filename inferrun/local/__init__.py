"""Executes a run on this machine, without Kubernetes and without Temporal. Needs the extra
`inferrun[local]`.

    from inferrun.local import run

    result = run("config.yaml", "run.yaml", claims={"data": "./data"})
    frame = result.results().to_pandas()

The manifests are checked and compiled as in a cluster, the Job that a worker would create is
interpreted here, and the runner that its Pod would execute is a process of this machine.
"""

from typing import TYPE_CHECKING

from inferrun.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from inferrun.local.result import LocalResult, run

__all__ = ["LocalResult", "run"]


# the process of a runner needs none of it
__getattr__ = lazy_exports(__name__, __all__, modules=("result",))
