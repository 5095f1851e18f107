"""Data frames as the input of real runs: stored in a bucket in each format, and returned with the
results of their rows."""

from typing import Any

import pandas
import polars
import pyarrow
import pytest

from inferrun.resources import InferenceConfig, parse_config, parse_run
from inferrun.resources.resolution import resolve
from inferrun.results import ResultsChanged, ResultsError, ResultsUnreachable, read_results
from inferrun.results.access import Access
from inferrun.results.frames import upload_frame, with_results
from tests.integration.runner.clouds import Clouds
from tests.integration.runner.pods import Machine
from tests.integration.runner.s3_server import S3Server, credentials
from tests.integration.runner.servers import CountingModel
from tests.integration.runner.test_reading_results import key, run_of

COUNT = 60
TABLE: dict[str, list[Any]] = {  # Any: values of a column
    "custom_id": [f"c{index}" for index in range(COUNT)],
    "first": list(range(COUNT)),
    "second": [0.5] * COUNT,
}
RUN = parse_run(
    {"metadata": {"name": "sums", "namespace": "models"}, "spec": {"configRef": {"name": "sums"}}}
)


def config_of(
    machine: Machine, s3: S3Server, *, form: str, path: str = "in/$(run.name)", **spec: Any
) -> InferenceConfig:
    """A config with input and output in the bucket; the machine executes it."""
    storage = {"input": {"s3": s3.spec(path, format=form)}, "output": {"s3": s3.spec("out")}}
    config = parse_config(
        {"metadata": {"name": "sums", "namespace": "models"}, "spec": {"storage": storage, **spec}}
    )
    resolved = resolve(RUN, config, is_our_runner=True)
    machine.contract |= {"input": resolved.input, "output": resolved.output, **spec}
    for side in ("input", "output"):
        credentials(machine.folder / "endpoints" / side)
    return config


def access() -> Access:
    return Access(credentials=key())


async def predict(machine: Machine, frame: Any, config: InferenceConfig) -> Any:  # Any: a frame
    upload_frame(frame, RUN, config, access=access())
    ended = await machine.success(INFERRUN_CHUNK_BYTES="1024")
    return with_results(frame, read_results(run_of(machine, ended), credentials=key()))


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv", "jsonl"])
async def test_a_frame_is_returned_with_its_predictions(
    machine: Machine, model: CountingModel, s3: S3Server, form: str
) -> None:
    model.reject({7})
    config = config_of(machine, s3, form=form)
    frame = pandas.DataFrame(TABLE, index=range(100, 100 + COUNT))
    found = await predict(machine, frame, config)
    assert list(found.columns) == [*TABLE, "prediction", "error"]
    assert list(found.index) == list(frame.index)
    assert found["prediction"].drop(107).to_list() == [
        index + 0.5 for index in range(COUNT) if index != 7
    ]
    assert pandas.isna(found["prediction"][107])
    assert found["error"][107]["code"] == "rejected"
    assert "prediction" not in frame.columns


@pytest.mark.parametrize("kind", [polars.DataFrame, pyarrow.table])
async def test_the_kind_of_the_frame_is_kept(
    machine: Machine, model: CountingModel, s3: S3Server, kind: Any
) -> None:
    frame = kind(TABLE)
    found = await predict(
        machine, frame, config_of(machine, s3, form="parquet", path="in/$(run.name)/")
    )
    assert type(found) is type(frame)
    assert (s3.bucket / "in" / "sums" / "rows.parquet").exists()
    values = found["prediction"]
    assert (values.to_list() if hasattr(values, "to_list") else values.to_pylist()) == [
        n + 0.5 for n in range(COUNT)
    ]


async def test_columns_that_the_config_names_are_members_of_json_lines(
    machine: Machine, model: CountingModel, s3: S3Server
) -> None:
    config = config_of(machine, s3, form="jsonl", passThroughColumns=["city"])
    frame = pandas.DataFrame({"inputs": [[1, 2], [3, 4]], "city": ["Rome", "Oslo"]})
    assert list((await predict(machine, frame, config))["prediction"]) == [3, 7]


async def test_an_upload_is_repeated_but_replaces_nothing(machine: Machine, s3: S3Server) -> None:
    config = config_of(machine, s3, form="csv")
    frame = pandas.DataFrame(TABLE)
    upload_frame(frame, RUN, config, access=access())
    upload_frame(frame, RUN, config, access=access())
    with pytest.raises(
        ResultsChanged, match="s3://records/in/sums exists already, with another content"
    ):
        upload_frame(frame[:3], RUN, config, access=access())


@pytest.mark.parametrize(
    ("label", "variable"),
    [("gcs", "GOOGLE_SERVICE_ACCOUNT_KEY"), ("azure", "AZURE_STORAGE_ACCOUNT_KEY")],
)
async def test_a_frame_and_its_results_are_in_another_cloud(
    machine: Machine, clouds: Clouds, label: str, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = clouds.bucket(label)
    storage = {
        "input": {label: bucket.spec("in/$(run.name)/", format="parquet")},
        "output": {label: bucket.spec("out")},
    }
    config = parse_config(
        {"metadata": {"name": "sums", "namespace": "models"}, "spec": {"storage": storage}}
    )
    resolved = resolve(RUN, config, is_our_runner=True)
    machine.contract |= {"input": resolved.input, "output": resolved.output}
    for side in ("input", "output"):
        bucket.mount(machine.folder / "endpoints" / side)
    frame = pandas.DataFrame(TABLE)
    known = Access(credentials=bucket.keys)
    upload_frame(frame, RUN, config, access=known)
    with pytest.raises(
        ResultsChanged, match=r"in/sums/rows\.parquet exists already, with another content"
    ):
        upload_frame(frame[:3], RUN, config, access=known)
    ended = await machine.success()
    run = run_of(machine, ended)
    with pytest.raises(ResultsUnreachable, match="keys of Secret 'credentials', or set"):
        read_results(run)
    joined = read_results(run, credentials=bucket.keys, join_input=True)
    assert [(row["custom_id"], row["first"], row["prediction"]) for row in joined] == [
        (f"c{index}", index, index + 0.5) for index in range(COUNT)
    ]
    (secret,) = bucket.keys.values()
    monkeypatch.setenv(variable, secret)
    assert len(read_results(run)) == COUNT


@pytest.mark.parametrize(
    ("storage", "frame", "why"),
    [
        (
            {"file": {"claimName": "data", "path": "in/$(run.name)"}},
            TABLE,
            "an input of the labels s3, gcs, azure only",
        ),
        (
            {"s3": {"bucket": "records", "path": "in/rows.csv"}},
            TABLE,
            r"put a placeholder into storage\.input\.s3\.path",
        ),
        (
            {"s3": {"bucket": "records", "path": "in/$(params.day)"}},
            TABLE,
            r"spec\.parameters\.day",
        ),
        (
            {"s3": {"bucket": "records", "path": "in/$(run.name)", "format": "avro"}},
            TABLE,
            "format 'avro'; use parquet",
        ),
        ({"s3": {"bucket": "records", "path": "in/$(run.name)"}}, {"a": []}, "has no rows"),
        (
            {"s3": {"bucket": "records", "path": "in/$(run.name)"}},
            {"error": [1]},
            "has a column 'error' already",
        ),
    ],
)
def test_a_frame_that_cannot_be_uploaded_is_explained(
    storage: dict[str, Any], frame: dict[str, Any], why: str
) -> None:
    config = parse_config({"metadata": {"name": "sums"}, "spec": {"storage": {"input": storage}}})
    with pytest.raises(ResultsError, match=why):
        upload_frame(pandas.DataFrame(frame), RUN, config, access=access())


def test_only_frames_are_uploaded() -> None:
    storage = {"input": {"s3": {"bucket": "records", "path": "in/$(run.name)"}}}
    config = parse_config({"metadata": {"name": "sums"}, "spec": {"storage": storage}})
    with pytest.raises(ResultsError, match="a list is not a data frame of pandas or polars"):
        upload_frame([[1, 2]], RUN, config, access=access())
