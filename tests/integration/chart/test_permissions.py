"""The permissions of each service account, compared with the recorded ones in `permissions/`.

A change of a rule is a change of a file there, which reviewers see. To record them again: delete
the file and run the test, which writes it and fails once.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.chart.conftest import Manifest, Render

RECORDED = Path(__file__).parent / "permissions"
MODES = {
    "all-namespaces": (),
    "one-namespace": ("watchNamespace=team-a",),
    "two-namespaces": ("watchNamespace={team-a,team-b}",),
}


def permissions(manifests: list[Manifest], account: str) -> Iterator[str]:
    """One line for each permission of a service account: scope, API group, resource, verbs."""
    roles = {
        (item["kind"], item["metadata"].get("namespace"), item["metadata"]["name"]): item
        for item in manifests
    }
    for binding in manifests:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        if ("inferrun-system", account) not in [
            (one["namespace"], one["name"]) for one in binding["subjects"]
        ]:
            continue
        scope = binding["metadata"].get("namespace")
        role = roles[(binding["roleRef"]["kind"], scope, binding["roleRef"]["name"])]
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    names = (
                        f" named {','.join(rule['resourceNames'])}"
                        if "resourceNames" in rule
                        else ""
                    )
                    where = f"namespace {scope}" if scope else "cluster"
                    yield f"{where}: {resource}.{group or 'core'}{names}: {' '.join(rule['verbs'])}"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("component", ["shim", "worker"])
def test_the_permissions_are_the_recorded_ones(render: Render, component: str, mode: str) -> None:
    path = RECORDED / f"{component}-{mode}.txt"
    found = "".join(
        f"{line}\n" for line in sorted(permissions(render(*MODES[mode]), f"inferrun-{component}"))
    )
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
        pytest.fail(f"{path.name} was missing and has been written; review it")
    assert found == path.read_text(encoding="utf-8")
