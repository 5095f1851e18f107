"""The answers that a run knows before it asks the model: those of earlier attempts, for records that
are sent once."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, closing

from inferrun.contract import Contract, RetriedRun
from inferrun.formats.record_keys import record_keys
from inferrun.plugins import (
    Chunk,
    Duplicates,
    EarlierResults,
    InputPlan,
    ModelProtocol,
    OutputStore,
    Source,
)
from inferrun_runner.flow.pipeline import KeysOf
from inferrun_runner.sending.answers import Answers
from inferrun_runner.settings import Settings

_log = logging.getLogger(__name__)


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
    """Yield the answers that earlier attempts have stored; none if the store cannot read them again.
    `begun` is their plan, None if there were none. Raises InputError and OutputError."""
    earlier_results = sink.abilities.earlier_results
    with closing(Answers(settings.spool_dir, limit=settings.limits.spool_bytes)) as answers:
        if begun and earlier_results:
            name = contract.run_id or contract.job_id
            own = RetriedRun(run_id=name, job_name=contract.job_name or name)
            if earlier := await earlier_results(own):
                await asyncio.to_thread(_collect, answers, keys_of, source, begun.chunks, earlier)
        yield answers


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
            keys = keys_of(block.records)
            for at, key in enumerate(keys):
                text = predictions.get(index + at)
                if key and text and at not in block.errors:
                    answers.add(key, text)
                    found += 1
            if answers.is_to_flush:
                answers.store(answers.take())
            if not keys:  # none of the input has one
                return
            index += len(block.records)
    if found:
        _log.info("the answers of earlier attempts were read", extra={"answers": found})
