"""kustomize itself, as kubectl has it, renames what runs and configs refer to."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import yaml

from deploy.crds.generate import KUSTOMIZE
from deploy.crds.schema import Schema
from tests.integration.conftest import CLUSTER_FILES

LISTS = ("headers", "headersFrom")


def built(folder: Path) -> list[Schema]:
    """What `kubectl kustomize` makes of the folder."""
    program = Path(os.environ.get("INFERRUN_BIN", CLUSTER_FILES / "bin")) / "kubectl"
    made = subprocess.run(
        [program, "kustomize", folder], capture_output=True, text=True, check=True
    )
    return list(yaml.safe_load_all(made.stdout))


def references() -> Iterator[tuple[Schema, Schema]]:
    """Each kind of object that is named, and each field that names it."""
    for target in yaml.safe_load(KUSTOMIZE.read_text())["nameReference"]:
        for field in target["fieldSpecs"]:
            yield {key: target[key] for key in ("kind", "group") if key in target}, field


def referring(kind: Schema, field: Schema, *, number: int) -> list[Schema]:
    """An object, and another one that names it in this field."""
    name = f"thing-{number}"
    value: object = name
    for part in reversed(field["path"].split("/")):
        value = {part: [value] if part in LISTS else value}
    assert isinstance(value, dict)
    version = f"{kind['group']}/v1" if "group" in kind else "v1"
    referrer = {
        "apiVersion": "ai.krateo.io/v1",
        "kind": field["kind"],
        "metadata": {"name": f"referrer-{number}"},
    }
    return [
        {"apiVersion": version, "kind": kind["kind"], "metadata": {"name": name}},
        {**referrer, **value},
    ]


def value_at(item: object, path: str) -> object:
    for part in path.split("/"):
        assert isinstance(item, dict)
        item = item[part][0] if part in LISTS else item[part]
    return item


def test_all_references_get_the_new_names(tmp_path: Path) -> None:
    known = list(references())
    objects = [
        one
        for number, (kind, field) in enumerate(known)
        for one in referring(kind, field, number=number)
    ]
    kustomization = {
        "resources": ["all.yaml"],
        "namePrefix": "staging-",
        "configurations": [KUSTOMIZE.name],
    }
    (tmp_path / "all.yaml").write_text(yaml.dump_all(objects))
    (tmp_path / KUSTOMIZE.name).write_text(KUSTOMIZE.read_text())
    (tmp_path / "kustomization.yaml").write_text(yaml.dump(kustomization))
    by_name = {item["metadata"]["name"]: item for item in built(tmp_path) if "spec" in item}
    found = {
        field["path"]: value_at(by_name[f"staging-referrer-{number}"], field["path"])
        for number, (_, field) in enumerate(known)
    }
    expected = {field["path"]: f"staging-thing-{number}" for number, (_, field) in enumerate(known)}
    assert found == expected
    assert len(found) > 30


def test_a_generated_secret_is_found_by_its_hash(tmp_path: Path) -> None:
    storage = {"input": {"sql": {"credentialsRef": {"name": "database"}}}}
    config = {
        "apiVersion": "ai.krateo.io/v1",
        "kind": "InferenceConfig",
        "metadata": {"name": "iris"},
    }
    run = {"apiVersion": "ai.krateo.io/v1", "kind": "InferenceRun", "metadata": {"name": "nightly"}}
    objects = [
        {**config, "spec": {"storage": storage}},
        {**run, "spec": {"configRef": {"name": "iris"}}},
    ]
    (tmp_path / "all.yaml").write_text(yaml.dump_all(objects))
    (tmp_path / KUSTOMIZE.name).write_text(KUSTOMIZE.read_text())
    secret = {"name": "database", "literals": ["uri=postgresql://db/irises"]}
    kustomization = {"resources": ["all.yaml"], "nameSuffix": "-eu", "secretGenerator": [secret]}
    (tmp_path / "kustomization.yaml").write_text(
        yaml.dump({**kustomization, "configurations": [KUSTOMIZE.name]})
    )
    items = {item["kind"]: item for item in built(tmp_path)}
    generated = items["Secret"]["metadata"]["name"]
    assert generated.startswith("database-eu-")
    assert (
        items["InferenceConfig"]["spec"]["storage"]["input"]["sql"]["credentialsRef"]["name"]
        == generated
    )
    assert items["InferenceRun"]["spec"]["configRef"]["name"] == "iris-eu"
