"""The definitions are generated from the models, in the form that the API server requires."""

from collections.abc import Iterator
from typing import Annotated

import pytest
from pydantic import BaseModel, Field

from deploy.crds.definitions import inference_config, inference_run
from deploy.crds.generate import expected_files
from deploy.crds.schema import NotStructural, Schema, structural
from inferrun.resources import InferenceRunSpec
from inferrun.resources.run import MUTABLE_AFTER_START

DEFINITIONS = [inference_config(), inference_run()]


def nodes(schema: Schema, *, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Every node below a schema, with its path."""
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, path=f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if isinstance(schema.get(keyword), dict):
            yield from nodes(schema[keyword], path=f"{path}[]")


def schema_of(definition: Schema) -> Schema:
    found: Schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def test_the_committed_files_are_up_to_date() -> None:
    for path, text in expected_files().items():
        assert path.read_text(encoding="utf-8") == text, "run: python -m deploy.crds.generate"


for_each_definition = pytest.mark.parametrize(
    "definition", DEFINITIONS, ids=lambda definition: definition["spec"]["names"]["kind"]
)


@for_each_definition
def test_every_field_of_spec_and_status_has_a_description(definition: Schema) -> None:
    undescribed = [
        path
        for path, node in nodes(schema_of(definition))
        if path and not path.endswith("[]") and path != ".metadata" and not node.get("description")
    ]
    assert undescribed == []


@for_each_definition
def test_no_default_of_a_spec_becomes_part_of_stored_objects(definition: Schema) -> None:
    assert [path for path, node in nodes(schema_of(definition)) if "default" in node] == [".status"]


@for_each_definition
def test_rules_at_the_root_are_transition_rules(definition: Schema) -> None:
    assert all(
        "oldSelf" in rule["rule"]
        for rule in schema_of(definition).get("x-kubernetes-validations", [])
    )


@for_each_definition
def test_rules_below_the_root_do_not_refer_to_the_old_object(definition: Schema) -> None:
    below = [
        rule["rule"]
        for path, node in nodes(schema_of(definition))
        if path
        for rule in node.get("x-kubernetes-validations", [])
    ]
    assert below
    assert not any("oldSelf" in rule for rule in below)


def test_fields_of_a_run_are_frozen_after_its_start_except_those_that_take_effect_later() -> None:
    rules = schema_of(inference_run())["x-kubernetes-validations"]
    (message,) = (
        rule["messageExpression"]
        for rule in rules
        if "the run has started" in rule["messageExpression"]
    )
    after_start, after_end = message.split(" cannot change: the run has started")
    assert " cannot change: the run has ended" in after_end
    for name, field in InferenceRunSpec.model_fields.items():
        json_name = field.alias or name
        assert (f"'{json_name}, '" in after_start) is (
            json_name not in MUTABLE_AFTER_START | {"schedule"}
        )
        assert (f"'{json_name}, '" in after_end) is (json_name in MUTABLE_AFTER_START)


def test_an_unchanged_spec_is_compared_as_a_whole_because_each_write_of_a_status_evaluates_the_rules() -> (
    None
):
    rules = schema_of(inference_run())["x-kubernetes-validations"]
    about_spec = [rule["rule"] for rule in rules if "self.spec." in rule["rule"]]
    assert len(about_spec) == 1
    assert about_spec[0].startswith("self.spec == oldSelf.spec || ")


def test_a_storage_object_preserves_unknown_fields() -> None:
    storage = schema_of(inference_config())["properties"]["spec"]["properties"]["storage"]
    for end in storage["properties"].values():
        kept = [node for _, node in nodes(end) if node.get("type") == "object"]
        assert kept
        assert all(node["x-kubernetes-preserve-unknown-fields"] for node in kept)


def test_the_generator_rejects_a_string_without_a_maximum() -> None:
    class Unbounded(BaseModel):
        name: str
        """A name."""

    with pytest.raises(NotStructural, match=r"Unbounded\.name has no maximum"):
        structural(Unbounded)


def test_the_generator_rejects_a_field_without_documentation() -> None:
    class Undocumented(BaseModel):
        name: Annotated[str, Field(max_length=5)]

    with pytest.raises(NotStructural, match=r"Undocumented\.name has no description"):
        structural(Undocumented)
