"""A folder with data and manifests, and a model server in another process's reach."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from inferrun.local.stub_model import StubModel
from inferrun.wellknown import API_VERSION

ROWS = 500
REPOSITORY = Path(__file__).parents[3]


@dataclass
class Place:
    """A folder in which the command is executed."""

    folder: Path
    model: StubModel
    arguments: list[str] = field(default_factory=list)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def manifest(self, name: str, *objects: dict[str, Any]) -> Path:
        file = self.folder / name
        file.write_text(yaml.safe_dump_all(objects))
        return file

    def config(self, name: str = "sums", /, **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": API_VERSION,
            "kind": "InferenceConfig",
            "metadata": {"name": name},
            "spec": {
                "kserve": {
                    "modelName": "stub",
                    "modelUrl": self.model.url,
                    "protocolVersion": "v2",
                },
                "storage": {
                    "input": {"file": {"claimName": "data", "path": "rows.jsonl"}},
                    "output": {"file": {"claimName": "data", "path": "out"}},
                },
                **spec,
            },
        }

    def run(self, name: str = "first", /, *, config: str = "sums", **spec: Any) -> dict[str, Any]:
        return {
            "apiVersion": API_VERSION,
            "kind": "InferenceRun",
            "metadata": {"name": name},
            "spec": {"configRef": {"name": config}, **spec},
        }

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "inferrun.cli", "local", *arguments]

    @property
    def environment(self) -> dict[str, str]:
        """Of a user who has selected no cluster."""
        own = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
        return {**own, "HOME": str(self.folder), "PYTHONPATH": str(REPOSITORY)}

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def local(self, *arguments: str) -> tuple[int, str]:
        """Execute the command; returns its exit code and what it printed."""
        process = self.start(*arguments)
        text, _ = process.communicate(timeout=120)
        return process.returncode, text

    def results(self, run: str = "first") -> list[dict[str, Any]]:
        """The committed results of a run, by its manifest."""
        uid = self.status(run)["metadata"]["uid"]
        (folder,) = (self.data / "out").glob(f"*{run}-{uid[:8]}")
        manifest = json.loads((folder / "manifest.json").read_text())
        lines = (
            line
            for part in manifest["parts"]
            for line in (folder / part["file"]).read_text().splitlines()
        )
        return [json.loads(line) for line in lines]

    def status(self, run: str = "first") -> dict[str, Any]:
        stored = self.folder / ".inferrun/runs" / run / "run.json"
        found: dict[str, Any] = json.loads(stored.read_text())["run"]
        return found


@pytest.fixture
def model() -> Iterator[StubModel]:
    with StubModel().served() as model:
        yield model


@pytest.fixture
def place(tmp_path: Path, model: StubModel) -> Place:
    place = Place(tmp_path, model)
    place.data.mkdir()
    rows = (f"[{index}, 0.5]\n" for index in range(ROWS))
    (place.data / "rows.jsonl").write_text("".join(rows))
    return place
