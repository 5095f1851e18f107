"""What every protocol for records of numbers must do."""

import json
import math
import socket
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import pytest

from inferrun.plugins import (
    ArrowRecords,
    Batch,
    Contract,
    ContractError,
    Fault,
    FaultKind,
    InferenceError,
    JsonRecords,
    Limits,
    Model,
    ModelContext,
    ModelProtocol,
    OpenModel,
    Results,
    Tensors,
)
from inferrun.plugins.testing.worlds import loaded, values_in

Rows: TypeAlias = list[list[float | None]]

ROWS: Final = [[1.0, 2.0, 3.5], [-4.0, 0.25, 1e6], [7.0, 8.0, 9.0]]

CANARY: Final = "c4nary"
"""What a server writes in the text of its errors, which nobody must see."""

NO_TENSORS: Final = Tensors()

KINDS: Final = {
    "rejected": FaultKind.REJECTED,
    "busy": FaultKind.BUSY,
    "missing": FaultKind.NOT_SERVED,
    "failed": FaultKind.SERVER_ERROR,
    "broken": FaultKind.INVALID,
}


def sums(rows: Rows) -> list[Any]:  # Any: a prediction
    """Predict the sum of each row."""
    return [sum(math.nan if value is None else value for value in row) for row in rows]


@dataclass
class ServedModel:
    """The model `sum` of a server that speaks the protocol. The server asks it for each request."""

    url: str = ""
    predict: Callable[[Rows], list[Any]] = sums  # Any: predictions
    failure: str = ""
    """How the server fails: `rejected`, `busy`, `missing`, `failed`, `broken` (no valid response);
    empty if it does not."""

    received: list[Rows] = field(default_factory=list)

    def respond(self, rows: Rows) -> list[Any]:  # Any: predictions
        """Record a request, and predict."""
        self.received.append(rows)
        return self.predict(rows)


class ModelWorld:
    """A protocol with its server. The fixture `world` returns it while the server runs."""

    pytestmark = pytest.mark.asyncio

    name: str
    """The name under which the package declares the protocol as an entry point."""

    server: ServedModel

    def open(
        self,
        url: str | None = None,
        *,
        tensors: Tensors = NO_TENSORS,
        **limits: Any,  # Any: a limit
    ) -> AbstractAsyncContextManager[ModelProtocol]:
        """Open the protocol as a Pod does."""
        model = Model(model_name="sum", model_url=self.server.url if url is None else url)
        given = Limits.model_validate(
            {"allowed_addresses": "127.0.0.1", "retry_seconds": 0, **limits}
        )
        contract = Contract(job_id="", job_name="", tensors=tensors)
        return self.load()(model, ModelContext(given, Path("/nonexistent"), contract))

    def load(self) -> OpenModel:
        """Return the opener of the protocol."""
        return cast("OpenModel", loaded("inferrun.protocols", self.name))


def _batch(rows: Sequence[Sequence[float | None]]) -> Batch:
    return Batch(first=0, records=JsonRecords([json.dumps(row).encode() for row in rows]))


def predictions_in(results: Results) -> list[object]:
    """Return the predictions as values, and the errors of the other records."""
    return [results.errors.get(at, value) for at, value in enumerate(values_in(results.values))]


async def predict(world: ModelWorld, rows: Sequence[Sequence[float | None]]) -> Results:
    """Send one request, as a Pod does."""
    async with world.open() as model:
        await model.prepare()
        return await model.predict(_batch(rows))


class ProtocolTests(ModelWorld):
    """Tests of a protocol."""

    async def test_each_record_has_its_prediction_in_order(self, world: ModelWorld) -> None:
        results = await predict(world, ROWS)
        assert predictions_in(results) == [sum(row) for row in ROWS]
        assert not results.errors
        assert world.server.received == [ROWS]

    async def test_many_records_are_one_request(self, world: ModelWorld) -> None:
        rows = [[float(index), 1.0, 2.0] for index in range(5000)]
        assert predictions_in(await predict(world, rows)) == [index + 3.0 for index in range(5000)]
        assert len(world.server.received) == 1

    async def test_columns_are_sent_as_rows(self, world: ModelWorld) -> None:
        import pyarrow  # noqa: PLC0415  records that are columns need it, and nothing else

        table = pyarrow.record_batch(
            {"a": [1, None, 3], "b": [0.5, 1.5, 2.5], "c": [True, False, True]}
        )
        async with world.open() as model:
            await model.prepare()
            results = await model.predict(Batch(first=0, records=ArrowRecords(table)))
            divided = await model.predict(Batch(first=0, records=ArrowRecords(table)).part(2, 3))
        assert predictions_in(results)[0::2] == [2.5, 6.5]
        assert set(results.errors) == {1}
        assert predictions_in(divided) == [6.5]

    @pytest.mark.parametrize(
        "predictions",
        [
            [[1.0, 0.5], [-4.0, 0.5], [7.0, 0.5]],
            [-1, -2, -3],
            [f"class {at}, «ü»" for at in range(3)],
        ],
    )
    async def test_a_prediction_may_be_several_values_or_an_integer_or_a_text(
        self, world: ModelWorld, predictions: list[object]
    ) -> None:
        world.server.predict = lambda _: predictions
        found = predictions_in(await predict(world, ROWS))
        assert found == predictions
        assert set(map(type, found)) == set(map(type, predictions))

    async def test_a_prediction_that_is_not_finite_is_an_error_of_its_record(
        self, world: ModelWorld
    ) -> None:
        world.server.predict = lambda _: [1.0, float("nan"), float("-inf")]
        results = await predict(world, ROWS)
        assert predictions_in(results)[0] == 1.0
        assert {at: error.code for at, error in results.errors.items()} == {
            1: "invalid_prediction",
            2: "invalid_prediction",
        }

    async def test_too_few_predictions_never_misalign_records(self, world: ModelWorld) -> None:
        world.server.predict = lambda rows: [0.0] * (len(rows) - 1)
        with pytest.raises(Fault) as raised:
            await predict(world, ROWS)
        assert raised.value.kind is FaultKind.INVALID

    @pytest.mark.parametrize("failure", KINDS)
    async def test_a_failure_has_its_kind_and_nothing_that_the_server_says_is_shown(
        self, world: ModelWorld, failure: str
    ) -> None:
        world.server.failure = failure
        with pytest.raises(Fault) as raised:
            await predict(world, ROWS)
        assert raised.value.kind is KINDS[failure] or (
            failure == "busy" and raised.value.is_transient
        )
        assert CANARY not in str(raised.value)
        assert "model 'sum'" in str(raised.value)

    async def test_a_server_that_is_not_there_is_unavailable(self, world: ModelWorld) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"127.0.0.1:{free.getsockname()[1]}"
            async with world.open(url) as model:
                with pytest.raises(Fault) as raised:
                    await model.predict(_batch(ROWS))
        assert raised.value.kind is FaultKind.UNAVAILABLE
        assert "check" in str(raised.value)

    async def test_a_name_that_cannot_be_resolved_is_reported(self, world: ModelWorld) -> None:
        async with world.open("no-such-service.invalid:8080") as model:
            with pytest.raises(
                (Fault, InferenceError), match=r"cannot resolve host name 'no-such-service.invalid'"
            ):
                await model.prepare()

    @pytest.mark.parametrize("url", ["", "ftp://host:80", "http://[::1", "host:notaport"])
    async def test_an_invalid_url_is_reported_with_its_field(
        self, world: ModelWorld, url: str
    ) -> None:
        with pytest.raises(ContractError, match=r"kserve\.modelUrl"):
            async with world.open(url):
                pass

    async def test_a_response_over_the_limit_is_not_read_to_its_end(
        self, world: ModelWorld
    ) -> None:
        world.server.predict = lambda rows: [[0.5] * 1000 for _ in rows]
        async with world.open(response_bytes=2048) as model:
            await model.prepare()
            with pytest.raises(Fault) as raised:
                await model.predict(_batch(ROWS))
        assert raised.value.kind is FaultKind.TOO_LARGE
