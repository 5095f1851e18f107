"""Objects of KServe whose users wrote what nobody would: each has an answer, which fits into a
status."""

from datetime import UTC, datetime

import pytest

from inferrun.kserve import Answer, ModelAddress, Never, NotYet, Other, Wanted, identity_of, resolve
from inferrun.resources import ModelStatus
from tests.unit.inferrun.kserve.stored import (
    Json,
    knative,
    llm,
    port,
    service,
    standard,
    with_model,
)

NOW = datetime(2026, 11, 21, 3, 0, 0, tzinfo=UTC)
OTHERS = {
    Other("deployments", "kserve-test", "sklearn-iris-predictor"): None,
    Other("deployments", "kserve-test", "tiny-llm-kserve"): None,
    Other("services", "kserve-test", "sklearn-iris-predictor"): service(port(80, target=8080)),
    Other("services", "kserve-test", "tiny-llm-kserve-workload-svc"): service(port(8000)),
}
SECRET = "c4nary"


def ask(item: Json, *, is_our_runner: bool = True) -> Answer:
    return resolve(item, Wanted(is_our_runner=is_our_runner), OTHERS, now=NOW)


def edited(time: object) -> Json:
    """A ready object whose status is of an earlier generation; users can set the times of their
    edits."""
    entry = {"manager": "me", "time": time, "fieldsV1": {"f:spec": {}}}
    return standard(metadata={"generation": 2, "managedFields": [entry]})


@pytest.mark.parametrize(
    "time", ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59-12:00", "0000-01-01T00:00:00Z", "soon"]
)
def test_an_edit_at_no_time_of_this_calendar_is_waited_for_until_the_object_changes(
    time: str,
) -> None:
    answer = ask(edited(time))
    assert isinstance(answer, NotYet)
    assert ("was edited" in answer.message, answer.until) == (True, None)


def test_an_address_that_cannot_be_used_is_shown_without_its_credentials() -> None:
    address = {"url": f"ftp://user:{SECRET}@host/path?key={SECRET}"}
    answer = ask(knative(status={"address": address, "components": None, "url": None}))
    assert isinstance(answer, Never)
    assert "ftp://host/path" in answer.message
    assert SECRET not in answer.message


def named(name: str) -> Json:
    """A model server that is started with this name of the model."""
    return with_model(knative(), protocolVersion="v2", args=[f"--model_name={name}"])


@pytest.mark.parametrize(
    "name", ["n" * 2049, "\x1b[31mred\x1b[0m", "two\nlines", "left\u202eright"]
)
def test_a_model_name_that_is_no_name_ends_the_run_with_a_reason(name: str) -> None:
    answer = ask(named(name))
    assert isinstance(answer, Never)
    assert "model name" in answer.message
    assert ask(llm(spec={"model": {"name": name}})) == Never(
        answer.message.replace(
            "InferenceService kserve-test/sklearn-iris", "LLMInferenceService kserve-test/tiny-llm"
        )
    )


def test_an_address_or_a_protocol_that_does_not_fit_into_a_status_ends_the_run_with_a_reason() -> (
    None
):
    for url in (f"http://host/{'p' * 4096}", "http://host/\x1b[31mred"):
        answer = ask(knative(status={"address": {"url": url}}))
        assert isinstance(answer, Never)
        assert "address" in answer.message
    answer = ask(with_model(knative(), protocolVersion="v" * 33), is_our_runner=False)
    assert isinstance(answer, Never)
    assert "protocol" in answer.message


@pytest.mark.parametrize("revision", ["r" * 5000, "\x1b[31mred", "two\nlines"])
def test_a_revision_is_one_line_that_fits_into_a_status_at_the_start_and_at_the_end(
    revision: str,
) -> None:
    item = knative(status={"components": {"predictor": {"latestRolledoutRevision": revision}}})
    answer = ask(item)
    assert isinstance(answer, ModelAddress)
    status = ModelStatus(revision=answer.revision, end_revision=identity_of(item)[1])
    assert status.revision == status.end_revision
    assert (status.revision or "").isprintable()


def test_the_largest_answer_fits_into_a_status() -> None:
    answer = ask(named("n" * 2048))
    assert isinstance(answer, ModelAddress)
    ModelStatus(
        url=answer.url,
        model_name=answer.model_name,
        protocol=answer.protocol,
        revision=answer.revision,
    )
