"""What GitOps tools conclude from the statuses that our code writes: our Lua scripts as Argo CD
runs them, and kstatus, which Flux uses.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml
from lupa.lua51 import LuaRuntime

from inferrun import wellknown
from inferrun.kube.objects import Object
from inferrun.reasons import Phase, Reason
from inferrun.resources import InferenceRun
from inferrun.run_status import ended_status, status_after
from operator_shim.schedule_status import rejected_status, schedule_status
from tests.unit.objects import NOW, run
from tools.devcluster.binaries import KSTATUS, build_missing, program_dir

CONFIG_MAP = Path(__file__).parents[1] / "deploy" / "gitops" / "argocd-cm.yaml"
KEY = "resource.customizations.health.ai.krateo.io_"


def argocd_health(item: Object, *, kind: str) -> tuple[str, str]:
    """Status and message of the health check in our ConfigMap. Argo CD runs Lua 5.1 with the object
    as `obj`."""
    script = yaml.safe_load(CONFIG_MAP.read_text())["data"][KEY + kind]
    runtime = LuaRuntime(register_eval=False, register_builtins=False, unpack_returned_tuples=True)
    runtime.globals()["obj"] = runtime.table_from(item, recursive=True)
    found = runtime.execute(script)
    return str(found["status"]), str(found["message"])


def kstatus(*items: Object, kind: str) -> list[str]:
    """What kstatus itself says of each object, which Flux asks."""
    build_missing(modules=(KSTATUS,))
    lines = "".join(
        json.dumps({"apiVersion": wellknown.API_VERSION, "kind": kind, **item}) + "\n"
        for item in items
    )
    program = [program_dir(KSTATUS) / "kstatus"]
    return subprocess.run(
        program, input=lines, capture_output=True, text=True, check=True
    ).stdout.split()


def item_of(before: InferenceRun, status: Any) -> Object:
    """The stored object with that status."""
    return {
        "metadata": {"generation": before.metadata.generation},
        "spec": {},
        "status": status.to_manifest(),
    }


def waiting(phase: Phase, reason: Reason) -> Object:
    before = run()
    return item_of(
        before,
        status_after(
            before, phase=phase, reason=reason, message="said", now=NOW, read_generation=3
        ),
    )


def ended(phase: Phase, reason: Reason) -> Object:
    before = run()
    return item_of(
        before, ended_status(before, phase=phase, reason=reason, message="said", now=NOW)
    )


def scheduled(**spec: Any) -> Object:
    before = run(schedule="1 * * * *", **spec)
    return item_of(
        before, schedule_status(before, next_times=[NOW], last_time=None, children=[], now=NOW)
    )


def rejected() -> Object:
    before = run(schedule="0 0 30 2 *")
    return item_of(
        before,
        rejected_status(
            before, children=[], reason=Reason.INVALID_SCHEDULE, message="never fires", now=NOW
        ),
    )


HEALTHS = (
    (waiting(Phase.PENDING, Reason.UNSCHEDULABLE), "Progressing", "InProgress"),
    (waiting(Phase.PENDING, Reason.VERIFYING), "Progressing", "InProgress"),
    (waiting(Phase.RUNNING, Reason.RUNNING), "Progressing", "InProgress"),
    (waiting(Phase.SUSPENDED, Reason.SUSPENDED), "Suspended", "InProgress"),
    (waiting(Phase.PENDING, Reason.INVALID_SPEC), "Degraded", "Failed"),
    (ended(Phase.SUCCEEDED, Reason.SUCCEEDED), "Healthy", "Current"),
    (ended(Phase.FAILED, Reason.INPUT_FAILED), "Degraded", "Failed"),
    (scheduled(), "Healthy", "Current"),
    (scheduled(suspend=True), "Suspended", "Current"),
    (rejected(), "Degraded", "Failed"),
)
"""An object, its health in Argo CD and its status in kstatus."""
