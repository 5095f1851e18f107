"""The chart's values have the names and defaults of the programs' settings, are validated and are
documented."""

import json
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml

from inferrun.run_defaults import Defaults

CHART = Path(__file__).resolve().parents[4] / "deploy" / "helm" / "inferrun"
# Any: free-form YAML
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
# Any: a JSON schema
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))

SET_FROM_OTHER_VALUES = {"runnerImage", "fixedUser"}


def test_the_chart_has_every_setting_of_the_programs_with_the_same_default() -> None:
    defaults = Defaults().model_dump(by_alias=True, mode="json")
    expected = {key: value for key, value in defaults.items() if key not in SET_FROM_OTHER_VALUES}
    assert VALUES["settings"] == expected


def test_the_charts_runner_image_is_the_programs_default() -> None:
    assert VALUES["images"]["runner"] == Defaults().runner_image


def unchecked(values: dict[str, Any], schema: dict[str, Any], *, path: str = "") -> Iterator[str]:
    """Values that are missing in the schema."""
    if "$ref" in schema:
        schema = SCHEMA["definitions"][schema["$ref"].rsplit("/", 1)[-1]]
    known = schema.get("properties", {})
    for name, value in values.items():
        if name not in known:
            yield f"{path}{name}"
        elif isinstance(value, dict) and "properties" in known[name]:
            yield from unchecked(value, known[name], path=f"{path}{name}.")


def test_the_schema_covers_every_value() -> None:
    assert list(unchecked(VALUES, SCHEMA)) == []


def test_every_setting_has_a_comment() -> None:
    lines = (CHART / "values.yaml").read_text(encoding="utf-8").splitlines()
    following = lines[lines.index("settings:") + 1 :]
    settings = list(takewhile(lambda line: line.startswith((" ", "#")) or not line, following))
    undocumented = [
        line
        for before, line in zip(["", *settings], settings, strict=False)
        if ":" in line and "#" not in before + line
    ]
    assert undocumented == []
