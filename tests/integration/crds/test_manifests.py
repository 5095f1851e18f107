"""Typical manifests: valid ones are accepted, and each mistake is rejected with the name and value of the field."""

import pytest

from inferrun.resources import parse_config, parse_run
from tests.integration.crds.manifests import ACCEPTED, CONFIG, REJECTED, Manifest
from tests.integration.crds.server import Rejected, Server


@pytest.mark.parametrize("manifest", ACCEPTED, ids=lambda manifest: manifest.title)
def test_a_valid_manifest_is_accepted_and_stored_as_written(server: Server, manifest: Manifest) -> None:
    stored = server.try_out(manifest.kind, manifest.spec)
    assert stored["spec"] == manifest.spec


@pytest.mark.parametrize("manifest", ACCEPTED, ids=lambda manifest: manifest.title)
def test_a_valid_manifest_is_parsed_by_the_models(manifest: Manifest) -> None:
    resource = manifest.resource(name="a", namespace="b")
    parsed = parse_config(resource) if manifest.kind == CONFIG else parse_run(resource)
    assert parsed.spec.to_manifest() == manifest.spec


@pytest.mark.parametrize("manifest", REJECTED, ids=lambda manifest: manifest.title)
def test_a_mistake_is_rejected_with_the_field_and_its_value(server: Server, manifest: Manifest) -> None:
    with pytest.raises(Rejected) as refusal:
        server.try_out(manifest.kind, manifest.spec)
    assert manifest.field in refusal.value.message
    assert manifest.value in refusal.value.message
