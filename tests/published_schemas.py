"""The JSON schemas under docs/reference/schemas, as a program in another language uses them."""

import json
from pathlib import Path

from jsonschema import Draft202012Validator

FOLDER = Path(__file__).parents[1] / "docs" / "reference" / "schemas"


def violations(name: str, value: object) -> list[str]:
    """What is wrong with the value by the schema of that name, such as `submission`."""
    schema = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return [
        f"{error.json_path}: {error.message}"
        for error in Draft202012Validator(schema).iter_errors(value)
    ]
