"""Sends of the records that are the same request only the first one; the others get its prediction.

Records are the same if the protocol gives them the same key. Only predictions are shared: if the
first record fails, the next one is sent.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from inferrun.formats.record_errors import chosen
from inferrun.formats.record_texts import prediction_texts
from inferrun.plugins import NO_USAGE, Batch, JsonRecords, RecordError, Results
from inferrun_runner.sending.answers import Answers
from inferrun_runner.sending.recall import Predict

_NONE: Final = b""
"""In place of the prediction of a record that has none."""

_FEW: Final = 8
"""Answers that are looked for at once: a thread takes longer than they do."""


class Duplicates:
    """The answers to the requests of one run."""

    def __init__(self, answers: Answers, *, note_sent: Callable[[Batch], None]) -> None:
        """`note_sent` is called with a batch that has nothing to send."""
        self._answers = answers
        self._note_sent = note_sent
        self._disk = asyncio.Lock()
        self._open = dict[bytes, asyncio.Future[bytes] | None]()
        """The keys of records that are being sent, with the prediction if somebody waits for it."""

        self.found = 0
        """Number of records that were not sent."""

    async def predict(self, batch: Batch, predict: Predict) -> Results:
        """Return the predictions of a batch, of which `predict` gets the records that are new, in
        order, if there are any; their indexes are not consecutive. Raises what it raises."""
        if not any(batch.keys):
            return await predict(batch)
        places: Sequence[int] = range(len(batch))
        texts, errors, usage = dict[int, bytes](), dict[int, RecordError](), NO_USAGE
        while places:
            claimed, others = self._claim(batch, places, texts)
            try:
                await self._find(claimed, texts)
                new = [at for at in places if at not in texts and at not in others]
                if not new:
                    self._note_sent(batch)
                else:
                    results = await predict(chosen(batch, new))
                    sent = prediction_texts(results.values)
                    self._keep(claimed, new, sent, results.errors)
                    if self._answers.is_to_flush:
                        await self._flush()
                    if len(new) == len(batch):
                        return results
                    texts |= dict(zip(new, sent, strict=True))
                    errors |= {new[at]: error for at, error in results.errors.items()}
                    usage += results.usage
            finally:
                for key in claimed.values():
                    self._pass_on(key, _NONE)
            answered = {at: await future for at, future in others.items()}
            texts |= {at: text for at, text in answered.items() if text}
            self.found += sum(map(bool, answered.values()))
            places = [at for at, text in answered.items() if not text]
        return Results(
            JsonRecords([texts[at] for at in range(len(batch))]),
            dict(sorted(errors.items())),
            usage,
        )

    def _claim(
        self, batch: Batch, places: Sequence[int], texts: dict[int, bytes]
    ) -> tuple[dict[int, bytes], Mapping[int, asyncio.Future[bytes]]]:
        """Add the predictions that are in memory to `texts`. Return the keys of the records to which
        this batch is to find an answer, and the answers that others are to find."""
        claimed, others = dict[int, bytes](), dict[int, asyncio.Future[bytes]]()
        for at in places:
            key = batch.keys[at]
            if key is None or at in batch.errors:
                continue
            if key in self._open:
                others[at] = self._open[key] = self._open[key] or asyncio.Future()
            elif text := self._answers.held(key):
                texts[at] = text
                self.found += 1
            else:
                self._open[key] = None
                claimed[at] = key
        return claimed, others

    async def _find(self, claimed: dict[int, bytes], texts: dict[int, bytes]) -> None:
        """Add the predictions that are on the disk to `texts`."""
        wanted = [key for key in claimed.values() if self._answers.may_be_stored(key)]
        if not wanted:
            return
        async with self._disk:
            if len(wanted) <= _FEW:
                found = self._answers.find(wanted)
            else:
                found = await asyncio.to_thread(self._answers.find, wanted)
        for at, key in list(claimed.items()):
            if key in found:
                texts[at] = found[key]
                self._pass_on(key, found[key])
                del claimed[at]
                self.found += 1

    def _keep(
        self,
        claimed: dict[int, bytes],
        places: Sequence[int],
        texts: Sequence[bytes],
        errors: Mapping[int, RecordError],
    ) -> None:
        """Keep the predictions of the records at these places, and pass them on to those that wait
        for them. What is left of the claimed ones has failed."""
        for order, at in enumerate(places):
            if order not in errors and (key := claimed.pop(at, None)):
                self._answers.add(key, texts[order])
                self._pass_on(key, texts[order])

    def _pass_on(self, key: bytes, text: bytes) -> None:
        future = self._open.pop(key)
        if future is not None and not future.done():  # cancelled with who waits for it
            future.set_result(text)

    async def _flush(self) -> None:
        async with self._disk:
            if self._answers.is_to_flush:
                await asyncio.to_thread(self._answers.store, self._answers.take())
