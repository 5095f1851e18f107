"""What the shim, the worker, clients and replay tests share: the data converter and the runner of
workflow code.

A history can be read and replayed only by processes that agree on the converter. It bounds what is
written to Temporal: 16 KiB per payload, and short failures without the content of objects.

Temporal rejects a payload of more than 2 MiB, and what was rejected is tried again forever. Our own
messages are far smaller; texts that are not are truncated here, because every payload and failure
of our processes passes through.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from pydantic import ValidationError
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.contrib.pydantic import PydanticJSONPlainPayloadConverter
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultFailureConverter,
    DefaultPayloadConverter,
    JSONPlainPayloadConverter,
    PayloadConverter,
)
from temporalio.exceptions import ApplicationError
from temporalio.plugin import SimplePlugin
from temporalio.worker import UnsandboxedWorkflowRunner

from inferrun.submission import MAX_PAYLOAD_BYTES
from inferrun.temporal.argument_check import ArgumentCheck, undecodable
from inferrun.text import one_line

FAILURE_MESSAGE_LIMIT: Final = 2048
STACK_TRACE_LIMIT: Final = 4000
MAX_CAUSES: Final = 5

_TEXT_LIMITS: Final = (1024, 256)
"""Characters to which the texts of a payload that is too large are truncated. No name is longer
than the last one."""

_WHOLE: Final = frozenset({"snapshot"})
"""Texts that are values of their own and useless if they are truncated; their size is limited where
they are made."""

_HISTORY: Final = "attempts"
"""A list of which the oldest entries are left out if truncated texts are not enough."""


class PayloadTooLarge(ApplicationError):
    """A payload has more than 16 KiB and cannot be shortened."""

    def __init__(self, size: int) -> None:
        text = f"a payload has {size} bytes, at most {MAX_PAYLOAD_BYTES} are allowed"
        super().__init__(text, type="PayloadTooLarge", non_retryable=True)


class BoundedJsonConverter(PydanticJSONPlainPayloadConverter):
    """Pydantic's conversion to JSON, with at most 16 KiB per payload."""

    def to_payload(self, value: Any) -> Payload | None:  # Any: as in the base class
        """The payload, shortened if necessary. Raises PayloadTooLarge."""
        payload = super().to_payload(value)
        if payload is not None and len(payload.data) > MAX_PAYLOAD_BYTES:
            payload.data = shorten(payload.data)
        return payload


_CONVERTERS: Final = tuple(
    BoundedJsonConverter() if isinstance(one, JSONPlainPayloadConverter) else one
    for one in DefaultPayloadConverter.default_encoding_payload_converters
)
"""Shared by all instances: the SDK makes one for every workflow, and each JSON converter would
build its validators again."""


class BoundedPayloadConverter(CompositePayloadConverter):
    """The default converters, with JSON as in `BoundedJsonConverter`."""

    def __init__(self) -> None:
        super().__init__(*_CONVERTERS)

    def from_payloads(
        self, payloads: Sequence[Payload], type_hints: list[type] | None = None
    ) -> list[Any]:  # Any: as in the base class
        """The values. Without hints, which the SDK omits where their number is another one, they
        come from any client: raises ApplicationError, because the SDK would try to decode them
        again for ever.
        """
        try:
            return super().from_payloads(payloads, type_hints)
        except Exception as error:
            if type_hints:
                raise
            raise undecodable(error) from None


class BoundedFailureConverter(DefaultFailureConverter):
    """The default failures, with bounded texts and a bounded number of causes."""

    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        """Convert, then truncate."""
        super().to_failure(exception, payload_converter, failure)
        _bound(exception, failure)


class EncodedFailureConverter(BoundedFailureConverter):
    """The SDK's converter of failures, with messages and stack traces in a payload, so that a codec
    applies to them as well."""

    def to_failure(
        self, exception: BaseException, payload_converter: PayloadConverter, failure: Failure
    ) -> None:
        """Convert and truncate, then move the texts."""
        super().to_failure(exception, payload_converter, failure)
        texts = {"message": failure.message, "stack_trace": failure.stack_trace}
        failure.encoded_attributes.CopyFrom(payload_converter.to_payloads([texts])[0])
        failure.message, failure.stack_trace = "Encoded failure", ""


def inferrun_plugin() -> SimplePlugin:
    """A new plugin, for `Client.connect`, which passes it on to workers, or for a `Replayer`.

    Without the sandbox, in which the tests execute workflow code
    (docs/decisions/0016-workflows-are-sandboxed-in-tests-only.md).
    """

    def bounded(given: DataConverter | None) -> DataConverter:
        given = given or DataConverter.default
        failures = (
            BoundedFailureConverter if given.payload_codec is None else EncodedFailureConverter
        )
        return replace(
            given, payload_converter_class=BoundedPayloadConverter, failure_converter_class=failures
        )

    return SimplePlugin(
        "inferrun",
        data_converter=bounded,
        interceptors=[ArgumentCheck()],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )


def shorten(data: bytes) -> bytes:
    """JSON of at most 16 KiB: with truncated texts, and with fewer of the oldest attempts. Raises
    PayloadTooLarge."""
    value = json.loads(data)
    limits = list(_TEXT_LIMITS)
    while True:
        if limits:
            value = _truncated(value, limits.pop(0))
        elif isinstance(value, dict) and value.get(_HISTORY):
            value[_HISTORY] = value[_HISTORY][1:]
        else:
            raise PayloadTooLarge(len(data))
        data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        if len(data) <= MAX_PAYLOAD_BYTES:
            return data


def _truncated(value: Any, limit: int) -> Any:  # Any: JSON
    if isinstance(value, str):
        return value if len(value) <= limit else one_line(value, limit=limit)
    if isinstance(value, list):
        return [_truncated(item, limit) for item in value]
    if isinstance(value, dict):
        return {
            key: item if key in _WHOLE else _truncated(item, limit) for key, item in value.items()
        }
    return value


def _bound(exception: BaseException, failure: Failure) -> None:
    """Truncate the texts of a failure and of its causes. Validation errors repeat the invalid
    values in their texts."""
    error: BaseException | None = exception
    for _ in range(MAX_CAUSES):
        is_encoded = failure.HasField("encoded_attributes")
        if isinstance(error, ValidationError) and not is_encoded:
            # A validation error by its first fields, without their values
            found = error.errors(include_url=False, include_context=False, include_input=False)[
                :MAX_CAUSES
            ]
            fields = "; ".join(
                f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found
            )
            failure.message = f"{error.title}: {fields}"
        failure.message = one_line(failure.message, limit=FAILURE_MESSAGE_LIMIT)
        failure.stack_trace = failure.stack_trace[-STACK_TRACE_LIMIT:]
        if not failure.HasField("cause"):
            return
        failure, error = failure.cause, error.__cause__ if error is not None else None
    failure.ClearField("cause")
