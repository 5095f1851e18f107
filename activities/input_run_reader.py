"""Finds the run whose output is a run's input, and whether runs wait for each other."""

from collections.abc import Callable
from typing import Final

from activities.config_reader import ConfigReader
from inferrun.contract import InputRun
from inferrun.kube.runs import RunStore
from inferrun.launches.input_run import (
    InputReference,
    cycle,
    input_reference,
    input_run,
    missing,
    noting,
    seen_of,
)
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.resources import InferenceRun
from inferrun.run_defaults import Defaults

LONGEST_CYCLE: Final = 16
"""Runs that are followed. A longer chain may be one of nightly runs that all wait, and each look at
it would take longer."""


class InputRunReader:
    def __init__(
        self, runs: RunStore, configs: ConfigReader, *, defaults: Callable[[], Defaults]
    ) -> None:
        self._runs = runs
        self._configs = configs
        self._defaults = defaults

    async def find(self, run: InferenceRun, reference: InputReference) -> InputRun:
        """The run as the contract has it. Raises LaunchBlocked while it has not succeeded, and if
        it never will."""
        namespace = run.metadata.namespace
        found = await self._runs.find(namespace, reference.name)
        with noting(seen_of(reference, found)):
            if found is None:
                schedule = (
                    await self._runs.find(namespace, reference.schedule)
                    if reference.schedule
                    else None
                )
                raise missing(reference, schedule)
            await self._check_cycle(run, found)
            return input_run(found)

    async def _check_cycle(self, run: InferenceRun, first: InferenceRun) -> None:
        """Raise LaunchBlocked if a run that has not been launched waits for this one, also through
        others."""
        names, current = [run.metadata.name], first
        while current.metadata.name not in names and len(names) < LONGEST_CYCLE:
            names.append(current.metadata.name)
            if current.spec.is_schedule or current.spec.backfill is not None:
                return
            if current.status.contract or current.status.is_terminal:
                return
            try:
                await self._configs.check_reference(current)
                config = await self._configs.read(current)
                reference = input_reference(
                    current, config, runner_image=self._defaults().runner_image
                )
            except LaunchBlocked:
                return  # it waits for something else, or will fail
            if reference is None:
                return
            if reference.name == run.metadata.name:
                raise cycle([*names, reference.name])
            following = await self._runs.find(run.metadata.namespace, reference.name)
            if following is None:
                return
            current = following
