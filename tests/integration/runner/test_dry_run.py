"""A dry run with the real program: what it finds out, and that it leaves nothing behind."""

import shutil

import pytest

from inferrun.reasons import Reason
from tests.integration.runner.pods import Machine
from tests.integration.runner.s3_server import S3Server, credentials
from tests.integration.runner.servers import CountingModel, Handler

TENSOR = {"name": "input-0", "datatype": "FP32", "shape": [-1, 2]}


def made_by(machine: Machine) -> list[str]:
    """Everything on the output claim."""
    return sorted(str(path.relative_to(machine.output)) for path in machine.output.rglob("*"))


@pytest.fixture
def checked(file: Machine, model: CountingModel) -> Machine:
    """A dry run over a `file` input with a good model."""
    (file.input / "data" / "rows.jsonl").write_text("[1, 2]\n" * 30)
    model.metadata = {"name": "sum", "inputs": [TENSOR]}
    file.contract["dryRun"] = True
    return file


async def test_a_dry_run_says_what_it_has_checked_and_leaves_nothing(
    checked: Machine, model: CountingModel
) -> None:
    ended = await checked.process()
    assert (ended.code, ended.result.reason) == (0, Reason.DRY_RUN_SUCCEEDED), ended.stderr
    assert ended.message == (
        "dry run: the contract is valid; input.file: the first 30 records are arrays of 2 numbers; the model's metadata agrees "
        "with them; the model is ready; output.file made/results/inf-sums-5be07ada can be written; nothing was predicted or stored"
    )
    assert made_by(checked) == []
    assert model.requests == []


async def test_a_run_after_a_dry_run_is_complete(checked: Machine, model: CountingModel) -> None:
    await checked.pod()
    del checked.contract["dryRun"]
    await checked.success("30 of 30 records predicted")
    assert len(model.requests) == 1


async def test_a_record_of_another_width_than_the_models_is_found(
    checked: Machine, model: CountingModel
) -> None:
    model.metadata = {"name": "sum", "inputs": [{**TENSOR, "shape": [-1, 4]}]}
    await checked.final_failure(
        4, "the record has 2 values, the model's metadata requires 4 for the tensor"
    )
    assert made_by(checked) == []


async def test_a_run_ends_before_its_first_request_if_no_record_has_the_shape(
    checked: Machine, model: CountingModel
) -> None:
    model.metadata = {"name": "sum", "inputs": [{**TENSOR, "shape": [-1, 4]}]}
    del checked.contract["dryRun"]
    ended = await checked.process()
    assert (ended.code, ended.result.retryable) == (4, False)
    assert (
        "the record has 2 values, the model's metadata requires 4 for the tensor" in ended.message
    )


async def test_a_model_that_is_not_ready_is_found(checked: Machine, model: CountingModel) -> None:
    model.is_ready = False
    ended = await checked.final_failure(4)
    assert ended.message.endswith(
        "/v2/models/sum/infer is not ready: status 200, but the model is not ready"
    )


async def test_a_missing_model_is_found(checked: Machine) -> None:
    url = str(checked.contract["kserve"]["modelUrl"])
    checked.contract["kserve"]["modelUrl"] = url.replace("/sum/", "/other/")
    await checked.failure(4, "is not ready: status 404")


async def test_an_invalid_first_record_is_found_before_the_model_is_asked(checked: Machine) -> None:
    (checked.input / "data" / "rows.jsonl").write_text('[1, "two"]\n')
    checked.contract["kserve"]["modelUrl"] = "http://127.0.0.1:9/v2/models/sum/infer"
    await checked.final_failure(3, "rows.jsonl line 1 contains a string")


async def test_an_input_without_records_is_an_error_unless_it_may_be_empty(
    checked: Machine,
) -> None:
    (checked.input / "data" / "rows.jsonl").write_text("")
    await checked.failure(3, "the input has no records")
    checked.contract["input"]["file"]["allowEmpty"] = True
    ended = await checked.success()
    assert "input.file has no records" in ended.message


async def test_an_output_that_cannot_be_written_is_found(checked: Machine) -> None:
    shutil.rmtree(checked.output)
    checked.output.write_text("a file in place of the claim")
    await checked.failure(5, "output.file: cannot write to path 'results' on claim 'made'")


async def test_a_bucket_is_probed_and_left_as_it_was(checked: Machine, s3: S3Server) -> None:
    checked.contract["output"] = {"s3": s3.spec("made")}
    credentials(checked.folder / "endpoints" / "output")
    ended = await checked.success()
    assert "output.s3 s3://records/made/inf-sums-5be07ada can be written" in ended.message
    assert [path for path in s3.bucket.rglob("*") if path.is_file()] == []


async def test_a_bucket_that_does_not_exist_is_found(checked: Machine, s3: S3Server) -> None:
    checked.contract["output"] = {"s3": s3.spec("made") | {"bucket": "missing"}}
    credentials(checked.folder / "endpoints" / "output")
    await checked.failure(5, "bucket or object does not exist")


async def test_a_data_handler_is_asked_for_records_and_stores_nothing(
    krateo: Machine, handler: Handler, model: CountingModel
) -> None:
    handler.rows = [[1, 2], [3, 4]]
    krateo.contract["dryRun"] = True
    ended = await krateo.success()
    assert "input.krateo: the first 2 records are arrays of 2 numbers" in ended.message
    assert "output.krateo cannot be checked without storing something" in ended.message
    assert (handler.stored, model.requests) == ([], [])
