"""Sends batches to a model server with the V2 protocol, over REST or gRPC.

Each call is one try; the pipeline retries, which is safe because inference has no side effects.
"""

from typing import Protocol

from inferrun.plugins import Batch, Model, OutputTensor, Records, Results, Tensors
from runner.protocols.v2.inputs import Tensor, map_of, mismatch_of, predict_tensors


class V2Transport(Protocol):
    """The connections to one model."""

    target: str
    """The model and its server, as messages name them."""

    is_json: bool
    """Whether values are sent as JSON, and not as bytes."""

    async def read_metadata(self) -> object:
        """Return the model's metadata in the form of V2 REST; None if it has none. Raises InferenceError."""

    async def infer(self, tensors: list[Tensor], outputs: tuple[OutputTensor, ...], *, records: int) -> Results:
        """Send one request. Raises Fault and InferenceError."""


class V2Client:
    """One model."""

    max_records: int | None = None

    takes_any = False

    def __init__(self, model: Model, transport: V2Transport, tensors: Tensors) -> None:
        self._wanted = model.model_input_name
        self._transport = transport
        self._tensors = tensors
        self._map = map_of(self._tensors, None, self._wanted, target=transport.target)

    def fed_columns(self) -> tuple[str, ...]:
        """Return the columns of the input tensors."""
        return tuple(dict.fromkeys(name for tensor in self._tensors.inputs for name in tensor.columns))

    async def prepare(self) -> None:
        """Read the name, shape and datatype of the inputs from the model's metadata."""
        metadata = await self._transport.read_metadata()
        self._map = map_of(self._tensors, metadata, self._wanted, target=self._transport.target)

    async def predict(self, batch: Batch) -> Results:
        """Send one batch, without the records that cannot be sent."""
        return await predict_tensors(batch.records, self._map.inputs, self._send, is_json=self._transport.is_json)

    def mismatch(self, records: Records) -> str:
        """Compare the records with the metadata."""
        return mismatch_of(records, self._map, target=self._transport.target, is_json=self._transport.is_json)

    async def _send(self, tensors: list[Tensor], records: int) -> Results:
        return await self._transport.infer(tensors, self._map.outputs, records=records)
