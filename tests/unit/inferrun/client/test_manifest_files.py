"""Manifests that are checked without a cluster: the verdict is that of the API server."""

import re

import pytest

from inferrun.client.manifest_files import check_manifest
from tests.integration.crds.manifests import ACCEPTED, REJECTED, Manifest

REPORTED_LATER = {
    "an empty model": "spec.kserve.modelUrl is not set",
    "an unknown key below a supported label, which the shim reports": "unknown key",
    "several shards": "spec.shards",
}
"""What the API server accepts, and the status of the config, or of the run, says."""


def title(manifest: Manifest) -> str:
    return manifest.title


def test_there_are_more_than_a_hundred() -> None:
    assert len(REJECTED) > 100


@pytest.mark.parametrize("manifest", REJECTED, ids=title)
def test_what_the_api_server_rejects_is_refused_with_its_field(manifest: Manifest) -> None:
    checked = check_manifest(manifest.resource(name="x", namespace="default"), number=1)
    names = re.findall(r"\w+", manifest.field)
    assert any(all(name in text for name in names) for text in checked.problems), checked.problems
    assert len(set(checked.problems)) == len(checked.problems)


@pytest.mark.parametrize("manifest", ACCEPTED, ids=title)
def test_what_the_api_server_accepts_is_accepted(manifest: Manifest) -> None:
    checked = check_manifest(manifest.resource(name="x", namespace="default"), number=1)
    later = REPORTED_LATER.get(manifest.title)
    assert bool(checked.problems) == bool(later)
    assert later is None or later in checked.problems[0]
