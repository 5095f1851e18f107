"""What GitOps tools conclude from an object: our Lua scripts as Argo CD runs them, and the rules of kstatus, which Flux uses."""

from pathlib import Path

import yaml
from lupa.lua51 import LuaRuntime

from inferrun.kube.objects import Object

CONFIG_MAP = Path(__file__).parents[1] / "deploy" / "gitops" / "argocd-cm.yaml"
KEY = "resource.customizations.health.ai.krateo.io_"


def argocd_health(item: Object, *, kind: str) -> tuple[str, str]:
    """Status and message of the health check in our ConfigMap. Argo CD runs Lua 5.1 with the object as `obj`."""
    script = yaml.safe_load(CONFIG_MAP.read_text())["data"][KEY + kind]
    runtime = LuaRuntime(register_eval=False, register_builtins=False, unpack_returned_tuples=True)
    runtime.globals()["obj"] = runtime.table_from(item, recursive=True)
    found = runtime.execute(script)
    return str(found["status"]), str(found["message"])


def kstatus(item: Object) -> str:
    """The status by the documented rules: generation, then Reconciling or Stalled, then Ready."""
    status = item.get("status") or {}
    observed = status.get("observedGeneration")
    if observed is not None and observed != item["metadata"]["generation"]:
        return "InProgress"
    values = {condition["type"]: condition["status"] for condition in status.get("conditions") or []}
    if values.get("Reconciling") == "True":
        return "InProgress"
    if values.get("Stalled") == "True":
        return "Failed"
    return "Current" if values.get("Ready", "True") == "True" else "InProgress"
