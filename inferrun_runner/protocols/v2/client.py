"""A model with the V2 protocol, over REST or gRPC."""

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from inferrun.plugins import Records, Results
from inferrun_runner.network.network_failures import invalid_response
from inferrun_runner.protocols.tensors.answers import ModelOutput
from inferrun_runner.protocols.tensors.columns import Tensor, tensors_of
from inferrun_runner.protocols.tensors.datatypes import Faults
from inferrun_runner.protocols.tensors.model import TensorModel
from inferrun_runner.protocols.tensors.predictions import results_of

if TYPE_CHECKING:
    import pyarrow


class V2Client(TensorModel[list[Tensor]]):
    """One model."""

    is_json = False
    """Whether values are sent as JSON, and not as bytes."""

    _is_typed = False
    _stored: "pyarrow.DataType | None" = None

    @abstractmethod
    async def exchange(
        self, tensors: list[Tensor]
    ) -> tuple[bytes, Callable[[], list[ModelOutput]]]:
        """Send one request, and return the response, and what reads its outputs or raises
        ValueError. Raises Fault."""

    def made_of(self, records: Records) -> tuple[list[Tensor], list[int], Faults]:
        """Return the tensors."""
        return tensors_of(records, self.signature.inputs, is_json=self.is_json)

    async def infer(self, request: list[Tensor], records: int) -> Results:
        """Send one request."""
        response, outputs = await self.exchange(request)
        try:
            return results_of(
                outputs(),
                self.signature,
                records=records,
                is_typed=self._is_typed,
                stored=self._stored,
            )
        except ValueError as error:
            raise invalid_response(self.target, "V2", response, error) from error

    def predicted(self) -> "pyarrow.DataType | None":
        """Return the type of a prediction. From now on, predictions have one."""
        self._is_typed = True
        return super().predicted()

    def use_type(self, stored: "pyarrow.DataType") -> None:
        """Return predictions as columns of this type."""
        self._is_typed, self._stored = True, stored
