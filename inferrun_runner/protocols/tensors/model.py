"""A model that takes tensors, whatever the protocol.

Each call is one try; the pipeline retries, which is safe because inference has no side effects.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from inferrun.formats.record_errors import not_sent, with_record_errors
from inferrun.plugins import (
    Batch,
    InferenceError,
    MixedBatch,
    Model,
    ModelAbilities,
    Records,
    Results,
    Tensors,
)
from inferrun_runner.protocols.tensors.columns import groups_of
from inferrun_runner.protocols.tensors.datatypes import Faults
from inferrun_runner.protocols.tensors.signature import signature_of

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T")


class TensorModel(ABC, Generic[T]):
    """One model, whose requests are made of `T`."""

    default = "FP32"
    """The datatype of an input without metadata."""

    configured_records: int | None = None
    """The most records in a request according to the server's configuration."""

    def __init__(self, model: Model, tensors: Tensors, *, target: str) -> None:
        """`target` is the model and its server, as messages name them."""
        self.target = target
        self.tensors = tensors
        self._wanted = model.model_input_name
        self._describe(None)

    @abstractmethod
    async def read_metadata(self) -> object:
        """Return the model's metadata in the form of V2 REST; None if it has none. Raises
        InferenceError."""

    @abstractmethod
    def made_of(self, records: Records) -> tuple[T, list[int], Faults]:
        """Return the request for the records that can be sent, the positions of these, and why the
        others cannot be sent.

        Raises MixedBatch.
        """

    @abstractmethod
    async def infer(self, request: T, records: int) -> Results:
        """Send a request for so many records. Raises Fault and InferenceError."""

    @property
    def max_records(self) -> int | None:
        """One, if an input has no dimension for more records; otherwise what the server's
        configuration says."""
        return 1 if self.signature.is_single else self.configured_records

    @property
    def abilities(self) -> ModelAbilities:
        """All of them. What the datatype of a tensor cannot represent is named with the column."""
        columns = self.tensors.columns
        return ModelAbilities(
            groups_of=self.groups_of,
            fed_columns=columns,
            takes_any=bool(columns),
            predicted=self.predicted,
            use_type=self.use_type,
            mismatch=self.mismatch,
            note=self.note,
        )

    async def prepare(self) -> None:
        """Read the name, shape and datatype of the inputs and outputs from the model's metadata."""
        self._describe(await self.read_metadata())

    def groups_of(self, records: Records) -> Sequence[Sequence[int]]:
        """Return the positions of the records with the same dimensions, for each request: a tensor
        has one shape."""
        return groups_of(records, self.signature.inputs)

    async def predict(self, batch: Batch) -> Results:
        """Send one batch, without the records that cannot be sent."""
        work = partial(self.made_of, batch.records)
        # Pillow lets other threads run
        is_slow = any(one.decodes_images for one in self.signature.inputs)
        request, places, faults = await asyncio.to_thread(work) if is_slow else work()
        results = await self.infer(request, len(places)) if places else None
        return with_record_errors(
            results, {at: not_sent(text) for at, text in faults.items()}, total=len(batch)
        )

    def mismatch(self, records: Records) -> str:
        """Return how the contract differs from the metadata; empty if it does not. Raises
        InferenceError if no record fits."""
        try:
            _, places, faults = self.made_of(records)
        except MixedBatch:  # all of their dimensions fit
            places, faults = [0], {}
        if not places:
            raise InferenceError(
                f"{self.target}: {faults[0]}; correct tensors.inputs, or the input",
                is_retryable=False,
            )
        return (
            f"{self.target}: {'; '.join(self.signature.mismatches)}"
            if self.signature.mismatches
            else ""
        )

    def note(self) -> str:
        """Return which inputs nothing feeds."""
        return self.signature.note

    def predicted(self) -> "pyarrow.DataType | None":
        """Return the type of a prediction, according to the metadata or the contract."""
        if not self.signature.outputs:
            return None
        from inferrun_runner.protocols.tensors.arrow_answers import type_of  # noqa: PLC0415  only runs with typed results pay for the import of pyarrow

        return type_of(self.signature)

    @abstractmethod
    def use_type(self, stored: "pyarrow.DataType") -> None:
        """Return predictions of this type, or JSON texts, which are converted when they are
        stored."""

    def _describe(self, metadata: object) -> None:
        self.signature = signature_of(
            self.tensors, metadata, self._wanted, target=self.target, default=self.default
        )
