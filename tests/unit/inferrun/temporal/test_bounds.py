"""What is written to Temporal is bounded, whatever it was made from."""

import json
from datetime import UTC, datetime

import pytest
from pydantic import BaseModel, ValidationError
from temporalio.api.failure.v1 import Failure
from temporalio.converter import DataConverter
from temporalio.exceptions import ApplicationError

from inferrun.reasons import Phase, Reason
from inferrun.resources import Attempt
from inferrun.run_ref import RunRef
from inferrun.submission import MAX_PAYLOAD_BYTES
from inferrun.temporal.plugin import (
    BoundedFailureConverter,
    BoundedPayloadConverter,
    PayloadTooLarge,
)
from workflows.messages import LaunchResult, LaunchState, RecordInput

RUN = RunRef(namespace="n" * 63, name="r" * 253, uid="5be07ada-0000-0000-0000-000000000000")
CANARY = "c4" + "nary"
NOW = datetime(2026, 11, 21, tzinfo=UTC)

CONVERTER = DataConverter(
    payload_converter_class=BoundedPayloadConverter, failure_converter_class=BoundedFailureConverter
)


def attempt(number: int) -> Attempt:
    message = "\U0001f642" * 256
    return Attempt(
        launch=number,
        attempt=number,
        job_name="j" * 63,
        start_time=NOW,
        exit_code=1,
        message=message,
    )


def payload_of(value: object) -> bytes:
    (payload,) = CONVERTER.payload_converter.to_payloads([value])
    return payload.data


def test_a_text_in_a_message_is_one_line_of_bounded_length() -> None:
    result = LaunchResult(
        state=LaunchState.WAITING, message="two\nlines\x1b[31m" + "x" * 17_000_000
    )
    assert len(result.message) == 2048
    assert result.message.startswith("two lines")
    assert len(payload_of(result)) < MAX_PAYLOAD_BYTES


def test_the_largest_outcome_fits_without_losing_what_identifies_it() -> None:
    outcome = RecordInput(
        run=RUN,
        phase=Phase.FAILED,
        reason=Reason.RUNNER_FAILED,
        message="\U0001f642" * 2048,
        attempts=tuple(map(attempt, range(1, 21))),
        snapshot="s" * 4096,
    )
    data = payload_of(outcome)
    assert len(data) <= MAX_PAYLOAD_BYTES
    found = RecordInput.model_validate_json(data)
    assert (found.run, found.snapshot, found.reason) == (RUN, outcome.snapshot, outcome.reason)
    assert found.attempts[-1].launch == 20


def test_a_payload_that_cannot_be_shortened_fails_for_good() -> None:
    with pytest.raises(PayloadTooLarge) as refused:
        payload_of({"snapshot": "s" * MAX_PAYLOAD_BYTES})
    assert refused.value.non_retryable


def test_what_fits_is_not_changed() -> None:
    value = {"message": "a\nb", "number": 1}
    assert json.loads(payload_of(value)) == value


class Sample(BaseModel):
    number: int


def failure_of(error: BaseException) -> Failure:
    failure = Failure()
    converter = CONVERTER
    converter.failure_converter.to_failure(error, converter.payload_converter, failure)
    return failure


def test_a_failure_has_short_texts_and_few_causes() -> None:
    error: Exception = ValueError("x" * 1_000_000)
    for _ in range(20):
        cause, error = error, RuntimeError("y\n" * 1_000_000)
        error.__cause__ = cause
    assert failure_of(error).ByteSize() < 30_000


def test_a_validation_error_fails_without_the_invalid_value() -> None:
    with pytest.raises(ValidationError) as invalid:
        Sample.model_validate({"number": CANARY})
    wrapped = ApplicationError("activity failed")
    wrapped.__cause__ = invalid.value
    failure = failure_of(wrapped)
    assert CANARY not in str(failure)
    assert failure.cause.message.startswith("Sample: number: Input should be a valid integer")


def test_the_converter_of_each_workflow_uses_validators_that_were_built_before() -> None:
    first, second = BoundedPayloadConverter(), BoundedPayloadConverter()
    assert list(first.converters.values()) == list(second.converters.values())
