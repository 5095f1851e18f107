"""Typical manifests: valid ones are accepted, and each mistake is rejected with the name and value
of the field."""

import pytest

from deploy.crds.schema import structural
from inferrun.resources import InferenceConfigSpec, InferenceRunSpec, parse_config, parse_run
from tests.integration.crds.manifests import (
    ACCEPTED,
    CONFIG,
    DAY,
    GOOD_CONFIG,
    GOOD_RUN,
    REJECTED,
    RUN,
    Manifest,
)
from tests.integration.crds.server import Rejected, Server


@pytest.mark.parametrize("manifest", ACCEPTED, ids=lambda manifest: manifest.title)
def test_a_valid_manifest_is_accepted_and_stored_as_written(
    server: Server, manifest: Manifest
) -> None:
    stored = server.try_out(manifest.kind, manifest.spec)
    assert stored["spec"] == manifest.spec


@pytest.mark.parametrize("manifest", ACCEPTED, ids=lambda manifest: manifest.title)
def test_a_valid_manifest_is_parsed_by_the_models(manifest: Manifest) -> None:
    resource = manifest.resource(name="a", namespace="b")
    parsed = parse_config(resource) if manifest.kind == CONFIG else parse_run(resource)
    assert parsed.spec.to_manifest() == manifest.spec


@pytest.mark.parametrize("manifest", REJECTED, ids=lambda manifest: manifest.title)
def test_a_mistake_is_rejected_with_the_field_and_its_value(
    server: Server, manifest: Manifest
) -> None:
    with pytest.raises(Rejected) as refusal:
        server.try_out(manifest.kind, manifest.spec)
    assert manifest.field in refusal.value.message
    assert manifest.value in refusal.value.message


@pytest.mark.parametrize("zeros", [".0Z", ".000Z", ".0000000+00:00", ".000000000Z"])
@pytest.mark.parametrize("field", ["interval", "backfill"])
def test_a_fraction_of_zeros_is_accepted(server: Server, zeros: str, field: str) -> None:
    day = {end: time.replace("Z", zeros) for end, time in DAY.items()}
    spec = (
        {**GOOD_RUN, "interval": day}
        if field == "interval"
        else {"backfill": {"schedule": "nightly", **day}}
    )
    stored = server.try_out(RUN, spec)
    assert getattr(parse_run(stored).spec, field).to_manifest() == {**spec[field], **DAY}


@pytest.mark.parametrize(
    ("kind", "good", "model"),
    [(CONFIG, GOOD_CONFIG, InferenceConfigSpec), (RUN, GOOD_RUN, InferenceRunSpec)],
)
def test_an_optional_field_may_be_null(
    server: Server, kind: str, good: dict[str, object], model: type
) -> None:
    """As other languages' clients write what is not set; the API server takes it away."""
    schema = structural(model)
    optional = set(schema["properties"]) - set(schema.get("required", ())) - good.keys()
    assert len(optional) > 10
    assert server.try_out(kind, {**good, **dict.fromkeys(optional)})["spec"] == good


@pytest.mark.parametrize(("kind", "good"), [(CONFIG, GOOD_CONFIG), (RUN, GOOD_RUN)])
def test_a_new_object_says_that_nothing_has_read_it(
    server: Server, kind: str, good: dict[str, object]
) -> None:
    tried = server.try_out(kind, good)
    assert tried["status"] == {"observedGeneration": -1}
    parsed = parse_config(tried) if kind == CONFIG else parse_run(tried)
    assert parsed.status.observed_generation is None
