"""`validate` and `init`, which need no cluster."""

from io import StringIO
from pathlib import Path

import pytest
import yaml

from inferrun.cli import main
from inferrun.cli.reporting import CommandExit
from inferrun.client.manifest_files import read_manifests
from inferrun.resources import InferenceConfig

ROOT = Path(__file__).parents[4]

CONFIG = {
    "apiVersion": "ai.krateo.io/v1",
    "kind": "InferenceConfig",
    "metadata": {"name": "iris"},
    "spec": {
        "kserve": {"modelName": "iris", "modelUrl": "http://iris.models/v2/models/iris/infer"},
        "storage": {
            "input": {"s3": {"bucket": "data", "path": "in/"}},
            "output": {"s3": {"bucket": "data", "path": "out/"}},
        },
    },
}
RUN = {
    "apiVersion": "ai.krateo.io/v1",
    "kind": "InferenceRun",
    "metadata": {"name": "iris"},
    "spec": {"configRef": {"name": "iris"}},
}


def file_of(folder: Path, *documents: object) -> Path:
    path = folder / "file.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return path


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").glob("*.yaml")), ids=lambda path: path.name
)
def test_every_example_is_valid(path: Path) -> None:
    assert main(["validate", str(path)]) == CommandExit.OK


def test_a_valid_file_is_called_valid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = file_of(tmp_path, CONFIG, RUN)
    assert main(["validate", str(path)]) == CommandExit.OK
    assert capsys.readouterr().out.splitlines() == [
        f"{path}: InferenceConfig iris: valid",
        f"{path}: InferenceRun iris: valid",
    ]


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({**CONFIG, "spec": {}}, "storage is not set; it is required"),
        ({**CONFIG, "spec": {**CONFIG["spec"], "shard": 2}}, "spec.shard"),  # type: ignore[dict-item]
        ({**CONFIG, "metadata": {"name": "Iris"}}, 'metadata.name is "Iris"'),
        ({**CONFIG, "spec": {"storage": {"input": {"s3": {"buket": "x"}}}}}, "did you mean bucket"),
        (
            {**RUN, "spec": {"configRef": {"name": "iris"}, "timeoutSecond": 5}},
            "did you mean timeoutSeconds",
        ),
        ({**RUN, "spec": {"configRef": {"name": "iris", "nam": "x"}}}, "spec.configRef.nam"),
        (
            {**RUN, "spec": {"configRef": {"name": "iris"}, "schedule": "0 25 * * *"}},
            "spec.schedule",
        ),
        (
            {**RUN, "spec": {"configRef": {"name": "iris"}, "parameters": {"job_uid": "1"}}},
            "reserved",
        ),
        ({**RUN, "spec": None}, "spec"),
        ("text", "it is not an object"),
    ],
)
def test_an_invalid_document_is_reported_with_its_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], document: object, problem: str
) -> None:
    assert main(["validate", str(file_of(tmp_path, RUN, document))]) == CommandExit.USAGE
    valid, *rest = capsys.readouterr().out.splitlines()
    assert valid.endswith("InferenceRun iris: valid")
    assert problem in "\n".join(rest)


@pytest.mark.parametrize(
    ("content", "problem"), [("", "is empty"), ("{", "is not YAML"), ("- &a [*a]\n", "")]
)
def test_a_file_that_is_no_manifest_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, problem: str
) -> None:
    (tmp_path / "file.yaml").write_text(content)
    assert main(["validate", str(tmp_path / "file.yaml")]) == CommandExit.USAGE
    printed = capsys.readouterr()
    assert problem in printed.err
    assert "Traceback" not in printed.err


def test_control_characters_of_a_file_are_not_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["validate", str(file_of(tmp_path, {**RUN, "metadata": {"name": "\x1b[2Jx"}}))])
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (
            [
                "--model",
                "http://iris/v2/models/iris/infer",
                "--input",
                "s3://data/in/",
                "--output",
                "s3://data/out/",
            ],
            {
                "input": {
                    "s3": {"bucket": "data", "path": "in/", "credentialsRef": {"name": "keys"}}
                }
            },
        ),
        (
            ["--model", "iris", "--input", "gs://data/in/", "--output", "gs://data/out/"],
            {
                "input": {
                    "gcs": {"bucket": "data", "path": "in/", "credentialsRef": {"name": "keys"}}
                }
            },
        ),
        (
            [
                "--model",
                "iris",
                "--input",
                "abfss://batch@data.dfs.core.windows.net/a.csv",
                "--output",
                "pvc://c/out",
            ],
            {
                "input": {
                    "azure": {
                        "account": "data",
                        "container": "batch",
                        "path": "a.csv",
                        "format": "csv",
                        "credentialsRef": {"name": "keys"},
                    }
                }
            },
        ),
        (
            ["--model", "iris", "--input", "pvc://claim/in.csv", "--output", "table://predictions"],
            {"input": {"file": {"claimName": "claim", "path": "in.csv", "format": "csv"}}},
        ),
        (
            ["--model", "iris", "--input", "select a from rows", "--output", "pvc://claim/out"],
            {"input": {"sql": {"query": "select a from rows", "credentialsRef": {"name": "keys"}}}},
        ),
        (
            ["--model", "iris", "--input", "https://web/in.parquet", "--output", "pvc://claim/out"],
            {
                "input": {
                    "http": {
                        "url": "https://web/in.parquet",
                        "format": "parquet",
                        "credentialsRef": {"name": "keys"},
                    }
                }
            },
        ),
    ],
)
def test_init_writes_a_config_that_validates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: list[str], expected: dict[str, object]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["init", "--name", "iris", "--secret", "keys", *answers]) == CommandExit.OK
    assert main(["validate", "iris.yaml"]) == CommandExit.OK
    (written,) = read_manifests(tmp_path / "iris.yaml")
    assert isinstance(written.resource, InferenceConfig)
    storage = written.resource.spec.storage.model_dump(exclude_none=True)
    assert storage["input"] == expected["input"]


@pytest.mark.parametrize(
    "option",
    [
        ("--input", "data"),
        ("--input", "s3://x/y"),
        ("--input", "abfss://container/y"),
        ("--output", "ftp://x/y"),
        ("--name", "A"),
        ("--model", "a b"),
    ],
)
def test_an_answer_that_is_not_allowed_is_reported(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    option: tuple[str, str],
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {
        "--name": "iris",
        "--model": "iris",
        "--input": "pvc://a/b",
        "--output": "pvc://a/c",
        "--secret": "",
    }
    words = [word for pair in {**given, option[0]: option[1]}.items() for word in pair]
    assert main(["init", *words]) == CommandExit.USAGE
    assert option[0] in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_init_does_not_overwrite_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "iris.yaml").write_text("mine")
    words = [
        "init",
        "--name",
        "iris",
        "--model",
        "m",
        "--input",
        "pvc://a/b",
        "--output",
        "pvc://a/c",
        "--secret",
        "",
    ]
    assert main(words) == CommandExit.USAGE
    assert (tmp_path / "iris.yaml").read_text() == "mine"
    assert main([*words, "--force"]) == CommandExit.OK


def test_a_question_is_asked_again_until_its_answer_makes_a_valid_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://minio:9000")
    monkeypatch.setattr(
        "sys.stdin",
        StringIO("iris\nmy-model\ns3://x/in\ns3://records/in\ns3://records/out\nkeys\n"),
    )
    assert main(["init"]) == CommandExit.OK
    assert 'spec.storage.input.s3.bucket is "x"' in "".join(capsys.readouterr())
    (written,) = read_manifests(tmp_path / "iris.yaml")
    assert isinstance(written.resource, InferenceConfig)
    place = {
        "bucket": "records",
        "endpoint": "http://minio:9000",
        "credentialsRef": {"name": "keys"},
    }
    storage = written.resource.spec.storage.model_dump(exclude_none=True)
    assert storage == {
        "input": {"s3": {**place, "path": "in"}},
        "output": {"s3": {**place, "path": "out"}},
    }
