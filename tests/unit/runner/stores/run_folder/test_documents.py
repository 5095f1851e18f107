"""The documents of a run's output."""

import hashlib

import pyarrow

from inferrun.contract import Contract, Model, ModelService, dump_contract
from inferrun.formats.result_schema import ResultSchema, Role, with_role
from inferrun.manifest import Manifest
from inferrun.plugins import Chunk, Counts, InputPlan, PlannedObject, Skipped
from inferrun_runner.contract_file import parse_contract
from inferrun_runner.stores.run_folder.documents import RunDocument, document_of, manifest_of

CONTRACT = Contract(
    job_id="a",
    run_id="b",
    job_name="inf-c",
    kserve=Model(
        model_name="iris",
        model_url="http://user:secret@iris.models/?key=secret",
        protocol_version="grpc-v2",
    ),
    input={"file": {"claimName": "given", "path": "rows.jsonl"}},
)


def manifest(contract: Contract) -> Manifest:
    return manifest_of(contract, InputPlan("files"), [], Counts(total=0))


def test_the_manifest_says_how_its_output_was_made() -> None:
    text = dump_contract(CONTRACT)
    found = manifest(parse_contract(text.encode()))  # what a Pod reads from its ConfigMap
    assert (found.model_name, found.model_url, found.protocol) == (
        "iris",
        "http://iris.models/",
        "grpc-v2",
    )
    assert found.contract_sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert found.runner_version
    assert "secret" not in found.text().decode()


def test_the_version_of_a_model_of_kserve_is_its_revision() -> None:
    service = ModelService(
        kind="InferenceService", namespace="models", name="iris", revision="iris-00007"
    )
    model = CONTRACT.kserve.model_copy(update={"service": service})
    assert manifest(CONTRACT.model_copy(update={"kserve": model})).model_version == "iris-00007"
    assert manifest(CONTRACT).model_version is None


def test_a_stored_plan_is_the_same_again() -> None:
    plan = InputPlan(
        "files",
        (Chunk(0, 0, 0, 5, 0, 5), Chunk(1, 1, 0, 7, 5, 7)),
        (Skipped("empty", 1, ("a",)),),
        (
            PlannedObject("dt=1/a.parquet", 10, "x", {"dt": "1", "region": None}),
            PlannedObject("b", 1, ""),
        ),
        b"\0\xff",
        ResultSchema(
            pyarrow.schema([with_role(pyarrow.field("index", pyarrow.int64()), Role.INDEX)])
        ).serialized(),
        (("1", "a"), ("2", "")),
    )
    assert RunDocument.model_validate_json(document_of(plan, CONTRACT).text()).plan() == plan
