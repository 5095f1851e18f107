"""A protocol that makes a request of the columns of a record, and columns of the response.
Templates and types are its base."""

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from inferrun.contract import Request
from inferrun.fields.problems import describe, parse_problems
from inferrun.formats.exact_json import exact_value, is_rounded
from inferrun.formats.record_errors import not_sent
from inferrun.plugins import (
    Batch,
    ContractError,
    JsonRecords,
    ModelAbilities,
    ModelContext,
    RecordError,
    Records,
    Results,
    TokenUsage,
)
from inferrun.resources.request import RequestTemplate, request_problems
from inferrun_runner.network.exchanges import Response
from inferrun_runner.protocols.prompts.bodies import Members
from inferrun_runner.protocols.prompts.predictions import Prediction, Predictions
from inferrun_runner.protocols.prompts.templates import InvalidRecord, Row, Templates

if TYPE_CHECKING:
    import pyarrow


class RowModel:
    """Makes the bodies of requests, and results of what they return."""

    max_records: int | None = 1

    def __init__(self, templates: Templates, predictions: Predictions) -> None:
        self._templates = templates
        self.predictions = predictions

    def body_of(self, row: Row) -> Members:
        """Return the body for a record. Raises InvalidRecord."""
        raise NotImplementedError

    async def predict_bodies(
        self, bodies: Sequence[Members]
    ) -> tuple[list[Prediction | RecordError], TokenUsage]:
        """Send the bodies of up to `max_records` records, and return what becomes of each. Raises
        Fault."""
        raise NotImplementedError

    @property
    def abilities(self) -> ModelAbilities:
        """The columns are those that the templates read; empty if they may read any."""
        return ModelAbilities(
            fed_columns=self._templates.columns or (),
            takes_any=True,
            predicted=self.predicted,
            use_type=self.use_type,
            mismatch=self.mismatch,
        )

    def predicted(self) -> "pyarrow.DataType | None":
        """Return the type of a prediction."""
        return self.predictions.predicted()

    def use_type(self, stored: "pyarrow.DataType") -> None:
        """Return predictions of this type."""
        self.predictions.use_type(stored)

    def mismatch(self, records: Records) -> str:
        """Return why no request can be made of the first record; empty if it can."""
        (made,) = self._made_of(records.part(0, 1))
        return made.message if isinstance(made, RecordError) else ""

    async def predict(self, batch: Batch) -> Results:
        """Send the records for which a request can be made."""
        made = self._made_of(batch.records)
        bodies = [one for one in made if not isinstance(one, RecordError)]
        found, usage = await self.predict_bodies(bodies) if bodies else ([], TokenUsage())
        rest = iter(found)
        return self.predictions.results(
            [one if isinstance(one, RecordError) else next(rest) for one in made], usage=usage
        )

    def nothing(self, _: Response) -> Records:
        """Return what is stored in place of the prediction of a rejected record."""
        return self.predictions.results([None]).values

    def _made_of(self, records: Records) -> list[Members | RecordError]:
        made = list[Members | RecordError]()
        for row in rows_of(records):
            try:
                made.append(row if isinstance(row, RecordError) else self.body_of(row))
            except InvalidRecord as error:
                made.append(not_sent(str(error)))
        return made


def check_request(request: Request, *, protocol: str) -> None:
    """Raise ContractError if the fields of a request do not fit together: not every contract is
    made by the control plane."""
    try:
        given = RequestTemplate.model_validate(
            request.model_dump(by_alias=True, exclude_defaults=True)
        )
    except ValidationError as error:
        raise ContractError(describe(parse_problems(error, path="request"))) from error
    if problems := tuple(request_problems(given, protocol=protocol)):
        raise ContractError(describe(problems))


def templates_of(context: ModelContext) -> Templates:
    """Return what compiles the templates of a run."""
    contract, span = context.contract, context.contract.interval
    run = {"id": contract.run_id or contract.job_id, "job": contract.job_name}
    if span is not None:
        run |= {"start": span.start, "end": span.end}
    return Templates(parameters=contract.parameters, run=run, max_bytes=context.limits.record_bytes)


def mounted_system(context: ModelContext) -> str:
    """Return the system message of a ConfigMap. Raises ContractError."""
    path = context.credentials_dir.parent / "request" / "system"
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text in UTF-8"
        raise ContractError(
            f"request.systemFrom: the text at {path} cannot be read: {why}"
        ) from error


def rows_of(records: Records) -> list[Row | RecordError]:
    """Return records as rows of Python values, because templates take nothing else.

    A number of JSON with more digits than a float is a Decimal.
    """
    if isinstance(records, JsonRecords):
        values = [_DECODER.decode(text.decode()) for text in records.texts]
        why = "the record must be an object with named columns"
        return [one if isinstance(one, dict) else not_sent(why) for one in values]
    from inferrun.formats.columns import values_of  # noqa: PLC0415  only runs with columns import pyarrow

    table = records.table
    columns = [_values_in(values_of(table, name)) for name in table.schema.names]
    rows = [dict(zip(table.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]
    return [_checked(row) for row in rows] if columns else [{} for _ in range(len(records))]


_UNAVAILABLE: Final = object()
"""In place of a value that neither Python nor JSON can represent."""


def _checked(row: Row) -> Row | RecordError:
    name = next((name for name, value in row.items() if value is _UNAVAILABLE), None)
    return (
        row
        if name is None
        else not_sent(f"column {name!r} has a value that a template cannot take")
    )


def _values_in(column: "pyarrow.Array") -> list[Any]:  # Any: what Arrow has
    """Return a column as Python's values, or in the form of JSON if Python's types cannot represent
    all of them."""
    if _fits_python(column.type):
        try:
            values: list[Any] = column.to_pylist()  # Any: as above
        except (ValueError, OverflowError):  # such as a time after the year 9999
            if len(column) > 1:
                return [
                    value for at in range(len(column)) for value in _values_in(column.slice(at, 1))
                ]
        else:
            return values
    from inferrun.formats.json_columns import texts_in  # noqa: PLC0415  as above

    return [
        _UNAVAILABLE if text is None else _DECODER.decode(text.decode())
        for text in texts_in(column)
    ]


def _fits_python(kind: "pyarrow.DataType") -> bool:
    """Whether Python's types represent a type: they have neither nanoseconds nor floating-point
    numbers of 32 bits."""
    from pyarrow import types  # noqa: PLC0415  as above

    if types.is_temporal(kind):
        return getattr(kind, "unit", "") != "ns" and not types.is_interval(kind)
    if types.is_map(kind) or (types.is_floating(kind) and not types.is_float64(kind)):
        return False
    return all(_fits_python(kind.field(at).type) for at in range(kind.num_fields))


def _number(text: str) -> float | Decimal:
    found = float(text)
    return found if not is_rounded(exact_value(text.encode())) else Decimal(text)


_DECODER: Final = json.JSONDecoder(parse_float=_number)  # integers have any size
