"""Built-in implementations, those of other packages, and what happens if their names collide."""

from pathlib import Path

import pytest

from inferrun.plugins import ContractError
from inferrun_runner import registry


def install(site: Path, *, group: str, points: str) -> None:
    """Put the metadata of a package with these entry points on the path."""
    info = site / "other-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{points}\n")


def test_every_built_in_implementation_can_be_loaded() -> None:
    assert [(point.group, point.name) for point in registry.BUILT_IN if point.load()] == [
        ("inferrun.stores.input", "file"),
        ("inferrun.stores.input", "s3"),
        ("inferrun.stores.input", "gcs"),
        ("inferrun.stores.input", "azure"),
        ("inferrun.stores.input", "http"),
        ("inferrun.stores.input", "sql"),
        ("inferrun.stores.input", "run"),
        ("inferrun.stores.output", "file"),
        ("inferrun.stores.output", "s3"),
        ("inferrun.stores.output", "gcs"),
        ("inferrun.stores.output", "azure"),
        ("inferrun.stores.output", "sql"),
        ("inferrun.protocols", "v1"),
        ("inferrun.protocols", "v2"),
        ("inferrun.protocols", "grpc-v2"),
        ("inferrun.protocols", "openai"),
        ("inferrun.protocols", "http"),
        ("inferrun.formats", "jsonl"),
        ("inferrun.formats", "json"),
        ("inferrun.formats", "csv"),
        ("inferrun.formats", "openai"),
        ("inferrun.formats", "parquet"),
        ("inferrun.formats", "arrow"),
        ("inferrun.formats", "orc"),
        ("inferrun.formats", "files"),
    ]


def test_a_package_must_not_reuse_a_built_in_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, group=registry.INPUTS, points="file = other:open_input")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        ContractError,
        match=r"^input\.file: 'file' is provided more than once \(inferrun_runner\..*, other:open_input\)",
    ):
        registry.Registry().input_store("file")


def test_a_package_that_cannot_be_loaded_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, group=registry.PROTOCOLS, points="other = not_there:open_model")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        ContractError,
        match=r"^kserve\.modelVersion: the package that provides 'other' cannot be loaded",
    ):
        registry.Registry().model_protocol("other", field="kserve.modelVersion")
