"""The chart's values are the settings that the programs read: same names, same defaults, each checked and documented."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from inferrun.control.run_defaults import Defaults

CHART = Path(__file__).resolve().parents[4] / "deploy" / "helm" / "inferrun"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))  # Any: free-form YAML
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))  # Any: a JSON schema

MADE_FROM_OTHER_VALUES = {"runnerImage"}


def test_every_default_of_the_programs_is_a_setting_of_the_chart_with_the_same_value() -> None:
    defaults = Defaults().model_dump(by_alias=True, mode="json")
    expected = {key: value for key, value in defaults.items() if key not in MADE_FROM_OTHER_VALUES}
    assert VALUES["settings"] == expected


def test_the_charts_runner_is_the_one_that_the_programs_assume() -> None:
    assert VALUES["images"]["runner"] == Defaults().runner_image


def unchecked(values: dict[str, Any], schema: dict[str, Any], *, path: str = "") -> Iterator[str]:
    """Values that the schema does not know."""
    if "$ref" in schema:
        schema = SCHEMA["definitions"][schema["$ref"].rsplit("/", 1)[-1]]
    known = schema.get("properties", {})
    for name, value in values.items():
        if name not in known:
            yield f"{path}{name}"
        elif isinstance(value, dict) and "properties" in known[name]:
            yield from unchecked(value, known[name], path=f"{path}{name}.")


def test_every_value_is_checked_by_the_schema() -> None:
    assert list(unchecked(VALUES, SCHEMA)) == []


def test_every_setting_has_a_line_above_it_that_says_what_it_is() -> None:
    lines = (CHART / "values.yaml").read_text(encoding="utf-8").splitlines()
    settings = lines[lines.index("settings:") + 1 : lines.index("shim:") - 1]
    undocumented = [
        line
        for before, line in zip(["", *settings], settings, strict=False)
        if ":" in line and "#" not in before + line
    ]
    assert undocumented == []
