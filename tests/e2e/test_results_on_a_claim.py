"""Results on a claim, read from outside of the cluster in the way that the documentation
describes."""

import shlex
from pathlib import Path

import pytest
import yaml

from inferrun.client import Client
from inferrun.results import ResultsUnreachable
from tests.e2e.file_world import FOLDER, in_pod, prepare_rows
from tests.e2e.stage import ROOT, Space, run
from tests.unit.docs.pages import blocks

PAGE = ROOT / "docs" / "how-to" / "results.md"
ROWS = 30


@pytest.mark.thorough
def test_results_on_a_claim_are_copied_through_a_pod_and_read(space: Space, tmp_path: Path) -> None:
    prepare_rows(space, backoffLimit=0)
    in_pod(space, f"python3 -c 'for i in range({ROWS}): print([i, 1])' > {FOLDER}/in.jsonl")
    space.apply(run("iris-monday", "ours"))
    status = space.wait_for("iris-monday", phase="Succeeded", seconds=120)
    claim, _, folder = status["output"]["location"].partition("/")
    with Client(kubeconfig=space.stage.kubeconfig, namespace=space.name) as client:
        with pytest.raises(
            ResultsUnreachable,
            match=f"on claim '{claim}', which only Pods reach.* copy of its folder {folder}",
        ):
            client.results("iris-monday")

        (reader,) = (
            one for one in map(yaml.safe_load, blocks(PAGE, "yaml")) if one["kind"] == "Pod"
        )
        reader["spec"]["containers"][0]["image"] = "localhost/inferrun/base:dev"
        reader["spec"]["terminationGracePeriodSeconds"] = 0
        space.apply(reader)
        (commands,) = (one for one in blocks(PAGE, "") if "kubectl cp" in one)
        wait, copy, read, delete = commands.splitlines()
        copied = copy.replace("out/inf-iris-monday-5be07ada", folder)
        assert copied != copy or folder.endswith("5be07ada")
        *words, target = shlex.split(copied)
        for command in (
            [*shlex.split(wait), "--timeout=55s"],
            [*words, str(tmp_path / target)],
            shlex.split(delete),
        ):
            space.kubectl(*command[1:])
        assert shlex.split(read)[-2:] == ["--directory", target]
        rows = list(client.results("iris-monday", directory=tmp_path / target))
    assert [row["index"] for row in rows] == list(range(ROWS))
    assert all(row["error"] is None and row["prediction"] is not None for row in rows)
