"""`inferrun local` with a model that KServe serves in a cluster: its address is read there, and reached
through the API server."""

import json
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from threading import Timer
from typing import Any, Final

import pytest
import yaml

from tests.e2e.file_world import model_server, of_files, service
from tests.e2e.kserve_world import kserve, play
from tests.e2e.stage import Object, Space, run
from tests.integration.runner.authority import make_authority
from tests.unit.inferrun.kserve.stored import llm, recorded, standard

__all__ = ["kserve"]

pytestmark = pytest.mark.usefixtures("kserve")

RECORDS: Final = 300


class Here:
    """A folder of this machine, in which a user executes the command."""

    def __init__(self, folder: Path, space: Space) -> None:
        self.folder = folder
        (folder / "data").mkdir()
        settings = yaml.safe_load(space.stage.kubeconfig.read_text())
        for one in settings["contexts"]:
            one["context"]["namespace"] = space.name
        (folder / "kubeconfig").write_text(yaml.safe_dump(settings))

    def write(self, *manifests: Object) -> None:
        (self.folder / "all.yaml").write_text(yaml.safe_dump_all(manifests))

    def local(self, *options: str) -> tuple[int, str]:
        """The exit code of the command, and what it says."""
        words = ["-f", "all.yaml", "--claim", "data=data", "--output", "json"]
        words += ["--kubeconfig", "kubeconfig", *options]
        done = subprocess.run(
            [sys.executable, "-m", "inferrun.cli", "local", *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout + done.stderr

    def predictions(self) -> list[Object]:
        parts = sorted(self.folder.glob("data/out/*/predictions/part-*"))
        return [json.loads(line) for part in parts for line in part.read_text().splitlines()]


@pytest.fixture
def here(tmp_path: Path, space: Space) -> Here:
    return Here(tmp_path, space)


def of_object(**reference: Any) -> Object:  # Any: fields of the reference
    return of_files("iris", kserve={"serviceRef": reference, "modelInputName": "in"})


def test_a_model_of_an_inference_service_is_reached_from_here(space: Space, here: Here) -> None:
    """And when a Pod of the model dies midway, the next connection goes to another one."""
    (here.folder / "data/in.jsonl").write_text("".join(f"[{at}, 1]\n" for at in range(RECORDS)))
    settings = of_object(name="sklearn-iris")
    settings["spec"]["requests"] = {"maxBatchRecords": 5, "concurrency": 4}
    here.write(settings, run("try", "iris"))

    code, text = here.local()
    assert code == 2
    assert f"ModelNotReady: InferenceService {space.name}/sklearn-iris does not exist" in text
    assert "--model-url" in text

    play(space, standard())
    space.apply(service("sklearn-iris-predictor", app="model"))
    code, text = here.local()
    assert code == 2
    assert f"Service {space.name}/sklearn-iris-predictor has no Pod that is ready" in text

    program, first = model_server("model", REQUEST_SECONDS="0.4")
    second = {**first, "metadata": {"name": "another", "labels": first["metadata"]["labels"]}}
    space.apply(program, first, second)
    for one in ("model", "another"):
        space.kubectl("wait", f"pod/{one}", "--for=condition=Ready", "--timeout=55s")
    killing = Timer(4, lambda: space.kubectl("delete", "pod", "another", "--wait=false"))
    killing.start()
    code, text = here.local()
    killing.join()
    assert code == 0, text
    assert [one["prediction"] for one in here.predictions()] == list(range(1, RECORDS + 1))
    stored = json.loads((here.folder / ".inferrun/runs/try/run.json").read_text())["run"]
    assert stored["metadata"]["namespace"] == space.name


def test_more_requests_than_there_are_connections_only_wait(space: Space, here: Here) -> None:
    (here.folder / "data/in.jsonl").write_text("".join(f"[{at}, 1]\n" for at in range(RECORDS)))
    play(space, standard())
    space.apply(
        service("sklearn-iris-predictor", app="model"),
        *model_server("model", REQUEST_SECONDS="0.5"),
    )
    space.kubectl("wait", "pod/model", "--for=condition=Ready", "--timeout=55s")
    settings = of_object(name="sklearn-iris")
    settings["spec"]["requests"] = {"maxBatchRecords": 1, "concurrency": 200}
    here.write(settings, run("try", "iris"))
    code, text = here.local()
    assert code == 0, text
    assert [one["prediction"] for one in here.predictions()] == list(range(1, RECORDS + 1))


def test_a_language_model_with_a_certificate_of_kserve(space: Space, here: Here) -> None:
    """Its certificate is its own authority, in a Secret, and names 127.0.0.1."""
    make_authority(here.folder / "authority")
    pem = {
        key: here.folder / "authority" / f"server.{end}"
        for key, end in (("tls.crt", "pem"), ("tls.key", "key"))
    }
    data = {key: b64encode(path.read_bytes()).decode() for key, path in pem.items()}
    authority = (here.folder / "authority" / "authority.pem").read_bytes()
    data["ca.crt"] = b64encode(authority).decode()
    name = "tiny-llm-kserve-self-signed-certs"
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data}
    volume = {
        "name": "tls",
        "secret": {"secretName": name, "items": [{"key": key, "path": key} for key in pem]},
    }
    space.apply(secret, service("tiny-llm-kserve-workload-svc", app="llm", port=8000))
    space.apply(*model_server("llm", volume, TLS="/tls"))
    space.kubectl("wait", "pod/llm", "--for=condition=Ready", "--timeout=55s")
    found = recorded("llmisvc-no-router-ready")
    status = json.loads(json.dumps(found["status"]).replace("http://", "https://"))
    play(space, {**llm(), "status": status})
    request = {
        "custom_id": "a",
        "method": "POST",
        "url": "/v1/chat/completions",
        "body": {"model": "any", "messages": [{"role": "user", "content": "irises"}]},
    }
    (here.folder / "data/in.jsonl").write_text(json.dumps(request) + "\n")
    settings = of_object(kind="LLMInferenceService", name="tiny-llm")
    del settings["spec"]["kserve"]["modelInputName"]
    for end in settings["spec"]["storage"].values():
        end["file"] |= {"format": "openai"}
    here.write(settings, run("try", "iris"))
    code, text = here.local()
    assert code == 0, text
    assert here.predictions()[0]["response"]["body"]["choices"][0]["message"]["content"] == "irises"
