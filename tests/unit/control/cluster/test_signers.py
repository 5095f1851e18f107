"""A signature is valid for one object of one run."""

from typing import Any

import pytest

from control.trust.identity import SigningKey
from control.trust.signatures import signed, signer_of_object
from inferrun.launches import manifests
from inferrun.launches.snapshot import CompiledRun
from inferrun.run_ref import RunRef
from tests.unit.objects import RUN, Json, snapshot

KEY = SigningKey()


def job(*, launch: int = 1) -> Json:
    compiled = CompiledRun("inf-iris-5be07ada", '{"jobName":"x"}', snapshot())
    return signed(
        manifests.job(RUN, compiled, installation="i", launch=launch, attempt=1, seconds_left=60),
        run=RUN,
        key=KEY,
    )


def config_map() -> Json:
    compiled = CompiledRun("inf-iris-5be07ada", '{"jobName":"x"}', snapshot())
    return signed(manifests.config_map(RUN, compiled, installation="i"), run=RUN, key=KEY)


def test_the_signer_of_an_object_is_the_key_of_the_process_that_created_it() -> None:
    assert signer_of_object(job(), run=RUN) == signer_of_object(config_map(), run=RUN) == KEY.signer
    assert SigningKey().signer != KEY.signer


def test_what_a_webhook_changes_in_a_job_leaves_its_signature_valid() -> None:
    changed = job()
    changed["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "default"
    changed["spec"]["template"]["spec"] |= {
        "priorityClassName": "low",
        "imagePullSecrets": [{"name": "mirror"}],
    }
    changed["spec"]["template"]["spec"]["containers"].append({"name": "sidecar"})
    assert signer_of_object(changed, run=RUN) == KEY.signer


@pytest.mark.parametrize("field", ["namespace", "name", "uid"])
def test_a_signature_is_not_valid_for_another_run(field: str) -> None:
    other = RunRef.model_validate({**RUN.model_dump(), field: "other"})
    assert signer_of_object(job(), run=other) == ""


def test_a_signature_is_not_valid_for_another_object() -> None:
    later = job(launch=2)
    later["metadata"]["annotations"] = job()["metadata"]["annotations"]
    assert signer_of_object(later, run=RUN) == ""
    assert signer_of_object({**job(), "kind": "ConfigMap"}, run=RUN) == ""


@pytest.mark.parametrize("key", ["contract.json", "snapshot.json"])
def test_a_signature_is_not_valid_for_other_texts(key: str) -> None:
    changed = config_map()
    changed["data"] = {**changed["data"], key: changed["data"][key] + " "}
    assert signer_of_object(changed, run=RUN) == ""
    assert (
        signer_of_object(
            {**config_map(), "data": {**config_map()["data"], "ca.crt": "added"}}, run=RUN
        )
        == KEY.signer
    )


@pytest.mark.parametrize(
    "given", ["", ".", "forged", "x.y", "SIGNER.", "SIGNER.AAAA", "ä.ö", ".SIGNER"]
)
def test_garbage_is_no_signature(given: str) -> None:
    forged = job()
    forged["metadata"]["annotations"]["inferrun.dev/signature"] = given.replace(
        "SIGNER", KEY.signer
    )
    assert signer_of_object(forged, run=RUN) == ""


@pytest.mark.parametrize("annotations", [None, {}])
# Any: as the API server sends it
def test_an_object_without_annotations_is_not_signed(annotations: Any) -> None:
    forged = job()
    forged["metadata"]["annotations"] = annotations
    assert signer_of_object(forged, run=RUN) == ""
