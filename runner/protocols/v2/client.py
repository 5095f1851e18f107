"""Sends batches to a model server with the V2 protocol, over REST or gRPC.

Each call is one try; the pipeline retries, which is safe because inference has no side effects.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Protocol

from inferrun.formats.record_errors import not_sent, with_record_errors
from inferrun.plugins import Batch, Model, Records, Results, Tensors
from runner.network.network_failures import invalid_response
from runner.protocols.tensors.answers import Output, results_of
from runner.protocols.tensors.columns import Tensor, mismatch_of, tensors_of
from runner.protocols.tensors.signature import Signature, signature_of

if TYPE_CHECKING:
    import pyarrow


class V2Transport(Protocol):
    """The connections to one model."""

    target: str
    """The model and its server, as messages name them."""

    is_json: bool
    """Whether values are sent as JSON, and not as bytes."""

    async def read_metadata(self) -> object:
        """Return the model's metadata in the form of V2 REST; None if it has none. Raises InferenceError."""

    async def infer(self, tensors: list[Tensor], signature: Signature) -> tuple[list[Output], bytes]:
        """Send one request, and return the outputs and the body of the response. Raises Fault and InferenceError."""


class V2Client:
    """One model."""

    def __init__(self, model: Model, transport: V2Transport, tensors: Tensors) -> None:
        self._wanted = model.model_input_name
        self._transport = transport
        self._tensors = tensors
        self._signature = signature_of(tensors, None, self._wanted, target=transport.target)
        self._is_typed = False
        self._stored: pyarrow.DataType | None = None

    @property
    def max_records(self) -> int | None:
        """One, if an input has no dimension for records."""
        return None if self._signature.has_batch else 1

    @property
    def takes_any(self) -> bool:
        """Columns that are named may have any type; what the datatype cannot represent is named with the column."""
        return bool(self._tensors.inputs)

    def fed_columns(self) -> tuple[str, ...]:
        """Return the columns of the input tensors."""
        return self._tensors.columns

    async def prepare(self) -> None:
        """Read the name, shape and datatype of the inputs and outputs from the model's metadata."""
        metadata = await self._transport.read_metadata()
        self._signature = signature_of(self._tensors, metadata, self._wanted, target=self._transport.target)

    async def predict(self, batch: Batch) -> Results:
        """Send one batch, without the records that cannot be sent."""
        inputs = self._signature.inputs
        work = partial(tensors_of, batch.records, inputs, is_json=self._transport.is_json)
        is_slow = any(one.decodes_images for one in inputs)  # Pillow lets other threads run
        tensors, places, faults = await asyncio.to_thread(work) if is_slow else work()
        results = await self._send(tensors, len(places)) if places else None
        return with_record_errors(results, {at: not_sent(text) for at, text in faults.items()}, total=len(batch))

    def mismatch(self, records: Records) -> str:
        """Compare the records with the metadata."""
        _, places, faults = tensors_of(records, self._signature.inputs, is_json=self._transport.is_json)
        return mismatch_of(self._signature, places, faults, target=self._transport.target)

    def predicted(self) -> "pyarrow.DataType | None":
        """Return the type of a prediction, according to the metadata or the contract. From now on, predictions have one."""
        from runner.protocols.tensors.arrow_answers import type_of  # noqa: PLC0415  only runs with typed results pay for the import of pyarrow

        self._is_typed = True
        return type_of(self._signature)

    def use_type(self, stored: "pyarrow.DataType") -> None:
        """Return predictions as columns of this type."""
        self._is_typed, self._stored = True, stored

    async def _send(self, tensors: list[Tensor], records: int) -> Results:
        found, response = await self._transport.infer(tensors, self._signature)
        try:
            return results_of(found, self._signature, records=records, is_typed=self._is_typed, stored=self._stored)
        except ValueError as error:
            raise invalid_response(self._transport.target, "V2", response, error) from error
