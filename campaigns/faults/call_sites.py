"""Identifies a call with a side effect by the code that makes it, in the running program and in its
source.

Both ways lead to the same name, such as `activities.launch_job:JobLauncher._create`: the innermost
function of ours that does not merely pass the call on. What passes calls on is listed here.
"""

import ast
import re
import sys
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).resolve().parents[2]

SCANNED = ("activities", "operator_shim", "worker", "control", "inferrun/kube", "inferrun/temporal")
"""What shim and worker consist of; `inferrun.client` and `inferrun.cli` run elsewhere, and workflow
code has no client."""

PASS_ON = {
    "inferrun.kube.client:KubeClient._json": r"",
    "inferrun.kube.client:KubeClient._request": r"",
    "inferrun.kube.client:KubeClient._answer": r"",
    "inferrun.kube.client:KubeClient.create": r"",
    "inferrun.kube.client:KubeClient.patch": r"",
    "inferrun.kube.client:KubeClient.delete": r"",
    "inferrun.kube.client:KubeClient.delete_if_present": r"",
    "inferrun.kube.runs:RunStore.update_status": r"\.update_status$",
    "control.cluster.events:EventRecorder.record": r"",
    "control.cluster.job_marks:_patch": r"^_patch$",
    "control.leases:LeaderElection._write": r"self\._write$",
    "control.temporal_calls:cancel_run": r"(^|run_workflows\.)cancel_run$",
    "control.temporal_calls:signal_run": r"^signal_run$",
    "control.temporal_calls:signal_workflow": r"^signal_workflow$",
    "control.temporal_calls:wake_run": r"^wake_run$",
    "control.search_attributes:SearchAttributes.send": r"",
    "inferrun.temporal.argument_check:_Check.execute_workflow": r"",
    "control.temporal_calls:notify_submitter": r"^notify_submitter$",
    "operator_shim.workflows:RunWorkflows._start": r"self\._start$",
    "operator_shim.workflows:RunWorkflows._start.<locals>.start": r"",
    "operator_shim.workflows:RunWorkflows.cancel": r"_workflows\.cancel$",
    "operator_shim.workflows:RunWorkflows.recheck": r"_workflows\.recheck$",
    "operator_shim.workflows:RunWorkflows.spec_changed": r"_workflows\.spec_changed$",
    "operator_shim.temporal_schedules:TemporalSchedules.delete": r"_temporal\.delete$",
}
"""Functions that pass calls on, and the pattern of the expressions that call them (empty: found by
other means)."""

_MUTATING_METHODS = ("create", "patch", "delete", "delete_if_present", "update", "replace")
_TEMPORAL_CALLS = re.compile(
    r"(?<!super\(\))\.(start_workflow|execute_workflow|signal_with_start\w*|create_schedule|add_search_attributes|remove_search_attributes)$"
)
_HANDLE_CALLS = re.compile(
    r"(_handle\(.*\)|\bhandle)\.(signal|cancel|terminate|update|execute_update|start_update|pause|unpause|trigger|backfill|delete)$"
)


def running_site(frame: FrameType | None = None) -> str:
    """The site of the call that is being made."""
    current: FrameType | None = frame or sys._getframe(1)
    last = ""
    while current is not None:
        name = _site_of(current)
        if name:
            last = name
            if name not in PASS_ON:
                return name
        current = current.f_back
    return last


def _site_of(frame: FrameType) -> str:
    path = Path(frame.f_code.co_filename)
    if not path.is_relative_to(ROOT):
        return ""
    relative = path.relative_to(ROOT)
    if not str(relative).startswith(SCANNED):
        return ""
    # a comprehension is part of its function
    function = re.sub(r"(\.<locals>\.<\w+>)+$", "", frame.f_code.co_qualname)
    return f"{'.'.join(relative.with_suffix('').parts)}:{function}"


def written_sites(root: Path = ROOT) -> set[str]:
    """The sites of all calls in the source."""
    found: set[str] = set()
    for folder in SCANNED:
        for path in sorted((root / folder).rglob("*.py")):
            module = ".".join(path.relative_to(root).with_suffix("").parts)
            finder = _Finder()
            finder.visit(ast.parse(path.read_text()))
            found |= {f"{module}:{name}" for name in finder.found}
    return found - PASS_ON.keys()


class _Finder(ast.NodeVisitor):
    """Collects the qualified names of the functions that contain such a call."""

    def __init__(self) -> None:
        self.found: set[str] = set()
        self._scope: list[str] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._scope.append(node.name)
        self.generic_visit(node)
        self._scope.pop()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._scope += [node.name, "<locals>"]
        self.generic_visit(node)
        del self._scope[-2:]

    def visit_Call(self, node: ast.Call) -> None:
        if self._scope and _has_effect(node):
            self.found.add(".".join(self._scope).removesuffix(".<locals>"))
        self.generic_visit(node)


def _has_effect(call: ast.Call) -> bool:
    text = ast.unparse(call.func)
    if _TEMPORAL_CALLS.search(text) or _HANDLE_CALLS.search(text):
        return True
    if any(pattern and re.search(pattern, text) for pattern in PASS_ON.values()):
        return True
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in _MUTATING_METHODS
        and _names_resource(call)
    )


def _names_resource(call: ast.Call) -> bool:
    """Whether the first argument is a `Resource`: a constant such as `JOBS`, or a parameter
    `resource`."""
    first = call.args[0] if call.args else None
    return isinstance(first, ast.Name) and (first.id.isupper() or first.id == "resource")
