"""What people write: good manifests are accepted, each mistake is refused with the field's name and its value."""

import pytest

from inferrun.resources import parse_config, parse_run
from inferrun.resources.validation import config_problems, describe, run_problems
from tests.integration.crds.manifests import ACCEPTED, CONFIG, REFUSED, TOLD_ON_STATUS, Manifest
from tests.integration.crds.server import Refused, Server


@pytest.mark.parametrize("manifest", ACCEPTED, ids=lambda manifest: manifest.title)
def test_a_good_manifest_is_accepted_and_stored_as_written(server: Server, manifest: Manifest) -> None:
    stored = server.try_out(manifest.kind, manifest.spec)
    assert stored["spec"] == manifest.spec


@pytest.mark.parametrize("manifest", ACCEPTED, ids=lambda manifest: manifest.title)
def test_a_good_manifest_is_understood_by_the_models(manifest: Manifest) -> None:
    resource = manifest.resource(name="a", namespace="b")
    parsed = parse_config(resource) if manifest.kind == CONFIG else parse_run(resource)
    assert parsed.spec.to_manifest() == manifest.spec


@pytest.mark.parametrize("manifest", REFUSED, ids=lambda manifest: manifest.title)
def test_a_mistake_is_refused_with_the_field_and_its_value(server: Server, manifest: Manifest) -> None:
    with pytest.raises(Refused) as refusal:
        server.try_out(manifest.kind, manifest.spec)
    assert manifest.field in refusal.value.message
    assert manifest.value in refusal.value.message


def test_at_least_thirty_mistakes_are_tried() -> None:
    assert len({manifest.title for manifest in REFUSED}) == len(REFUSED) >= 30


@pytest.mark.parametrize("manifest", TOLD_ON_STATUS, ids=lambda manifest: manifest.title)
def test_what_the_api_server_cannot_know_is_found_by_the_shims_check(server: Server, manifest: Manifest) -> None:
    stored = server.try_out(manifest.kind, manifest.spec)
    problems = config_problems(parse_config(stored)) if manifest.kind == CONFIG else run_problems(parse_run(stored))
    assert [problem.field for problem in problems] == [manifest.field]
    assert manifest.value in describe(problems)
