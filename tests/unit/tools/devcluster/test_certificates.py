"""Kubeconfigs are complete: the current context exists and names an existing cluster and user."""

import json
from pathlib import Path

from tools.devcluster.certificates import kubeconfig


def test_the_current_context_of_a_kubeconfig_exists(tmp_path: Path) -> None:
    for name in ("ca.crt", "admin.crt", "admin.key"):
        (tmp_path / name).write_text(name)
    settings = json.loads(kubeconfig(tmp_path, "admin"))
    contexts = {context["name"]: context["context"] for context in settings["contexts"]}
    current = contexts[settings["current-context"]]
    assert current["cluster"] in [cluster["name"] for cluster in settings["clusters"]]
    assert current["user"] in [user["name"] for user in settings["users"]]
