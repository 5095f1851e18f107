"""What a run with `retryOf` takes over of the ended run: the predictions of the same records, or of
those with the same ids.

If the input is the same, records are the same if their indexes are. If it is not, they have to have
ids: a record whose id has a prediction keeps it, whatever else of the record has changed.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property

from inferrun.contract import RetriedRun
from inferrun.plugins import Batch, EarlierResults, InputError, InputPlan, Source
from inferrun_runner.program.result_types import first_valid
from inferrun_runner.sending.keyed_predictions import KeyedPredictions
from inferrun_runner.sending.recall import PredictionsByIndex
from inferrun_runner.settings import Settings

_log = logging.getLogger(__name__)


class Retry:
    """The input of a run, and the results of the ended run. All methods block."""

    def __init__(
        self,
        run: RetriedRun,
        earlier: EarlierResults,
        source: Source,
        settings: Settings,
        *,
        is_partitioned: bool,
    ) -> None:
        """`is_partitioned`: whether no chunk may have records of two partitions, as those of the
        ended run may."""
        self._run = run
        self._earlier = earlier
        self._source = source
        self._settings = settings
        self._is_partitioned = is_partitioned
        self.kept = earlier.kept
        """The number of predictions that are taken over; valid after `plan`."""

    def plan(self) -> InputPlan:
        """Divide the input, as the ended run did if it is the same. Raises InputError if
        predictions cannot be told apart."""
        source, plan = self._source, self._earlier.plan
        if source.fingerprint != plan.fingerprint:
            changed = source.plan()
            first = first_valid(source, changed)
            if first is not None and set(first.ids) - {None}:
                self.kept = self._by_id.count(
                    block for chunk in changed.chunks for block in source.read(chunk)
                )
                plan = replace(changed, result_schema=plan.result_schema)
        if plan is self._earlier.plan and (adopt := source.abilities.adopt):
            adopt(plan)  # files that were added since are not read
            if self._is_partitioned:
                plan = replace(source.plan(), result_schema=plan.result_schema)
        if plan.fingerprint != source.fingerprint:
            raise InputError(
                f"retryOf: the input differs from the one that run {self._run.name!r} read, and its records have no custom_id by "
                "which its predictions could be found; start a run without retryOf",
                is_retryable=False,
            )
        _log.info(
            "a run is retried",
            extra={"retried": self._run.name, "kept": self.kept, "records": plan.total},
        )
        return plan

    def known(self, plan: InputPlan) -> Callable[[Batch], Mapping[int, bytes]]:
        """Return what finds the predictions of a batch; `plan` is what all attempts have agreed
        on."""
        is_same = plan.fingerprint == self._earlier.plan.fingerprint
        return PredictionsByIndex(self._earlier).of if is_same else self._by_id.of

    @cached_property
    def _by_id(self) -> KeyedPredictions:
        folder, limit = self._settings.spool_dir, self._settings.limits.spool_bytes
        return KeyedPredictions(
            self._earlier.results(), run=self._run.name, folder=folder, limit=limit
        )
