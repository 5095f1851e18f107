"""Examples of the documentation that tests execute."""

from typing import Any

from inferrun.resources import parse_config
from inferrun.resources.validation import config_problems


def valid_spec(example: dict[str, Any]) -> dict[str, Any]:  # Any: YAML
    """The spec of a config, which has no problems. The namespace is that of whoever applies it."""
    metadata = {**example["metadata"], "namespace": "models"}
    assert config_problems(parse_config({**example, "metadata": metadata})) == ()
    spec: dict[str, Any] = example["spec"]  # Any: YAML
    return spec
