"""The answers that a run knows before it asks the model: those of earlier attempts, for records that
are sent once."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing
from typing import Final

from inferrun.contract import Contract, RetriedRun
from inferrun.formats.record_keys import record_keys
from inferrun.plugins import (
    Chunk,
    Duplicates,
    EarlierResults,
    InputPlan,
    ModelProtocol,
    OutputError,
    OutputStore,
    Source,
)
from inferrun_runner.flow.pipeline import KeysOf
from inferrun_runner.program.result_types import first_valid
from inferrun_runner.sending.answers import Answers
from inferrun_runner.settings import Settings

_log = logging.getLogger(__name__)

_SPOOL_SHARE: Final = 8
"""What part of `limits.spool` answers may take, and their places the same: input and output may each
take all of it, and the Pod is evicted if everything together exceeds the size of its folder."""


def keys_for(model: ModelProtocol, duplicates: Duplicates) -> KeysOf | None:
    """Return what finds out which records are the same request; None if each is sent."""
    if duplicates is Duplicates.SEND_EACH:
        return None
    if keys_of := model.abilities.keys_of:
        return lambda records: keys_of(records, duplicates)
    return record_keys if duplicates is Duplicates.SEND_ONCE else None


@asynccontextmanager
async def known_answers(
    keys_of: KeysOf,
    source: Source,
    sink: OutputStore,
    begun: InputPlan | None,
    *,
    contract: Contract,
    settings: Settings,
) -> AsyncIterator[Answers]:
    """Yield the answers that earlier attempts have stored, as far as the store can read them again.
    `begun` is their plan, None if there were none. Raises InputError."""
    limit = settings.limits.spool_bytes // _SPOOL_SHARE
    with closing(Answers(settings.spool_dir, limit=limit)) as answers:
        earlier_results = sink.abilities.earlier_results
        if (
            begun is not None
            and earlier_results is not None
            and await asyncio.to_thread(_has_keys, keys_of, source, begun)
        ):
            name = contract.run_id or contract.job_id
            own = RetriedRun(run_id=name, job_name=contract.job_name or name)
            try:
                if earlier := await earlier_results(own):
                    await asyncio.to_thread(
                        _collect, answers, keys_of, source, begun.chunks, earlier
                    )
            except OutputError as error:
                _log.warning(
                    "not all answers of earlier attempts can be read, so some requests are sent again",
                    extra={"error": str(error)},
                )
        yield answers


def _has_keys(keys_of: KeysOf, source: Source, plan: InputPlan) -> bool:
    """Whether one of the first records has a key: otherwise it is not worth reading everything."""
    first = first_valid(source, plan)
    return first is not None and any(keys_of(first.records))


def _collect(
    answers: Answers,
    keys_of: KeysOf,
    source: Source,
    chunks: Iterable[Chunk],
    earlier: EarlierResults,
) -> None:
    found = 0
    for chunk in chunks:
        predictions = earlier.predictions(chunk.index)
        if not predictions:
            continue
        index = chunk.first
        for block in source.read(chunk):
            for at, key in enumerate(keys_of(block.records)):
                text = predictions.get(index + at)
                if key and text and at not in block.errors:
                    answers.add(key, text)
                    found += 1
            if answers.is_to_flush:
                answers.store(answers.take())
            index += len(block.records)
    if found:
        _log.info("the answers of earlier attempts were read", extra={"answers": found})
