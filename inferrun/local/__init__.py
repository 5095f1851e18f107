"""Executes a run on this machine, without Kubernetes and without Temporal. Needs the extra
`inferrun[local]`.

    from inferrun.local import run

    result = run("config.yaml", "run.yaml", claims={"data": "./data"})
    frame = result.results().to_pandas()

The manifests are checked and compiled as in a cluster, the Job that a worker would create is
interpreted here, and the runner that its Pod would execute is a process of this machine.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inferrun.local.result import LocalResult, run

__all__ = ["LocalResult", "run"]


def __getattr__(name: str) -> object:
    if name in __all__:  # loaded on first use: the process of a runner needs none of it
        from inferrun.local import result  # noqa: PLC0415

        return getattr(result, name)
    raise AttributeError(f"module 'inferrun.local' has no attribute {name!r}")
