"""The notebook among the examples, executed on the installed product, with a real model server and
a real S3 server."""

import asyncio
import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.e2e.stage import ROOT, Space
from tests.integration.runner.ml_server import ml_server
from tests.integration.runner.s3_server import ACCESS_KEY, SECRET_KEY, s3_server

NOTEBOOK = ROOT / "examples" / "quickstart.ipynb"
BRIDGE = "10.88.0.1"
"""The address of this machine that Pods reach."""

SECONDS = 120


def secret(name: str) -> dict[str, object]:
    data = {"accessKeyId": ACCESS_KEY, "secretAccessKey": SECRET_KEY}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}


def shown(notebook: nbformat.NotebookNode, cell: str, kind: str = "text/plain") -> str:
    (found,) = (one for one in notebook.cells if one.id == cell)
    texts = [
        str(out.text if out.output_type == "stream" else out.data.get(kind, ""))
        for out in found.outputs
    ]
    return "\n".join(texts)


@pytest.mark.thorough
async def test_the_quickstart_notebook_leads_from_a_data_frame_to_its_predictions(
    space: Space, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(space.stage.kubeconfig))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    for variable in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(variable)
    notebook = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    async with (
        s3_server(tmp_path / "s3", host=BRIDGE) as s3,
        ml_server(tmp_path / "models", host=BRIDGE) as model,
    ):
        await asyncio.to_thread(space.apply, secret("s3-credentials"))
        (settings,) = (cell for cell in notebook.cells if cell.id == "settings")
        assigned = set(re.findall(r"^(\w+) =", settings.source, flags=re.MULTILINE))
        assert assigned == {"NAMESPACE", "MODEL", "BUCKET", "FROM_HERE"}
        served = {"modelName": "sklearn-iris", "modelUrl": model.rest, "protocolVersion": "v2"}
        bucket = {key: value for key, value in s3.spec("").items() if key != "path"}
        values = f"{space.name!r}, {served!r}, {bucket!r}, {{'endpoint': {s3.url!r}}}"
        settings.source = f"NAMESPACE, MODEL, BUCKET, FROM_HERE = {values}"
        await NotebookClient(notebook, timeout=SECONDS, kernel_name="python3").async_execute()
    assert re.findall(r"(\d)\s+None$", shown(notebook, "predict"), flags=re.MULTILINE) == [
        "0",
        "1",
        "2",
    ]
    assert "Succeeded" in shown(notebook, "predict", "text/html"), "the progress is displayed"
    assert "Succeeded total=3 completed=3 failed=0" in shown(notebook, "run")
    for column in ("petal_width", "prediction"):
        assert column in shown(notebook, "results")
    assert shown(notebook, "failure").count("InputFailed") >= 1
