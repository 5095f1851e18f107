"""The errors of records, in place of which some stores need a value: placeholders, and the records
that are not sent, because they are not valid or because the model cannot take them. Pure."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import orjson

from inferrun.formats.json_text import text_of
from inferrun.formats.record_texts import prediction_texts
from inferrun.plugins import (
    ArrowRecords,
    Batch,
    Block,
    Json,
    JsonRecords,
    RecordError,
    Records,
    Results,
)

NOT_SENT: Final = "invalid_input"
"""The code of a record that is not sent."""

INVALID_PREDICTION: Final = "invalid_prediction"
"""The code of a record whose prediction is not valid."""


def not_sent(text: str) -> RecordError:
    """Return the error; `text` says what is wrong with the record."""
    return RecordError(NOT_SENT, text)


FAILED_BEFORE: Final = "input_run"
"""The code of a record that has failed in the run whose output is the input."""


def invalid_of(block: Block) -> list[RecordError]:
    """Return the errors of a block that are faults of the input, in order."""
    return [error for _, error in sorted(block.errors.items()) if error.code != FAILED_BEFORE]


async def predict_valid(batch: Batch, predict: Callable[[Batch], Awaitable[Results]]) -> Results:
    """Predict the records of a batch that have no error. The indexes of those in the part of it are
    not consecutive."""
    if not batch.errors:
        return await predict(batch)
    places = [at for at in range(len(batch)) if at not in batch.errors]
    valid = chosen(batch, places) if places else None
    return with_record_errors(
        await predict(valid) if valid else None, batch.errors, total=len(batch)
    )


def selected(records: Records, places: Sequence[int]) -> Records:
    """Return the records at some positions, of which there is at least one."""
    if isinstance(records, JsonRecords):
        return JsonRecords([records.texts[at] for at in places])
    # pyarrow can take no strings that are views
    parts = [records.part(at, at + 1) for at in places]
    return parts[0].join(parts[1:])


def chosen(batch: Batch, places: Sequence[int]) -> Batch:
    """Return the records at some positions, of which there is at least one, as they are sent. Their
    indexes need not be consecutive."""
    if len(places) == len(batch):
        return batch
    return Batch(
        first=batch.first,
        records=selected(batch.records, places),
        errors={to: batch.errors[at] for to, at in enumerate(places) if at in batch.errors},
        keys=[batch.keys[at] for at in places] if batch.keys else (),
    )


async def with_known(
    batch: Batch, known: Mapping[int, bytes], predict: Callable[[Batch], Awaitable[Results]]
) -> Results:
    """Return the known predictions of a batch, by position, with those that `predict` returns for
    the other records, which it gets in order if there are any. Raises what it raises."""
    if not known:
        return await predict(batch)
    texts = [known.get(at, b"") for at in range(len(batch))]
    places = [at for at in range(len(batch)) if at not in known]
    if not places:
        return Results(JsonRecords(texts))
    sent = await predict(chosen(batch, places))
    for at, text in zip(places, prediction_texts(sent.values), strict=True):
        texts[at] = text
    errors = {places[at]: error for at, error in sent.errors.items()}
    return Results(JsonRecords(texts), errors, sent.usage)


def in_places(results: Results, places: Sequence[int]) -> Results:
    """Return results that belong to these positions, of which each occurs once, in their order."""
    order = sorted(range(len(places)), key=places.__getitem__)
    values = results.values
    values = (
        values.taken(order)
        if isinstance(values, ArrowRecords)
        else JsonRecords([values.texts[at] for at in order])
    )
    return replace(
        results, values=values, errors={places[at]: one for at, one in results.errors.items()}
    )


def with_record_errors(
    results: Results | None, unsent: Mapping[int, RecordError], *, total: int
) -> Results:
    """Insert the errors of the records that were not sent, by their positions, into the results of
    those that were."""
    if results is not None and not unsent:
        return results
    errors = dict(unsent)
    if results is None:
        return Results(JsonRecords([b"null"] * total), errors)
    places = [at for at in range(total) if at not in unsent]
    errors |= {places[at]: one for at, one in results.errors.items()}
    if isinstance(results.values, ArrowRecords):
        rows: list[int | None] = [None] * total
        for row, at in enumerate(places):
            rows[at] = row
        return Results(results.values.taken(rows), errors, results.usage)
    sent = results.values.texts
    texts = [_blank_like(sent[0])] * total
    for at, value in zip(places, sent, strict=True):
        texts[at] = value
    return Results(JsonRecords(texts), errors, results.usage)


def with_blanks(results: Results) -> Results:
    """Give failed records without a value one of the shape of the others."""
    if not results.errors or not isinstance(results.values, JsonRecords):
        return results
    texts = results.values.texts
    blank = _blank_like(
        next((text for at, text in enumerate(texts) if at not in results.errors), b"")
    )
    filled = [
        blank if at in results.errors and text == b"null" else text for at, text in enumerate(texts)
    ]
    return replace(results, values=JsonRecords(filled))


def _blank_like(text: bytes) -> bytes:
    def blanked(value: Json) -> Json:
        return [blanked(one) for one in value] if isinstance(value, list) else None

    return text_of(blanked(orjson.loads(text))) if text.startswith(b"[") else b"null"
