"""Sends the signals that the reconciler wants, with workers of its own, and repeats those that nobody acknowledges."""

import asyncio
import logging
from collections.abc import Callable, Mapping

from activities.rules.observation import Doing, Launch
from inferrun.control.work_queue import WorkQueue
from inferrun.kube.informer import Key
from worker.observer.job_state import JobState, WantedSignal
from worker.observer.run_signals import SignalSender
from workflows.signals import Ended, Started

logger = logging.getLogger(__name__)

WORKERS = 50


class SignalQueue:
    """Run it as one task. `on_sent` is called with the key of the Job after each signal."""

    def __init__(
        self, states: Mapping[Key, JobState], signals: SignalSender, *, on_sent: Callable[[Key], None]
    ) -> None:
        self._states = states
        self._signals = signals
        self._on_sent = on_sent
        self._queue: WorkQueue[Key] = WorkQueue(self._send, workers=WORKERS)

    async def run(self) -> None:
        """Send until cancelled."""
        await self._queue.run()

    def add(self, key: Key) -> None:
        """Send the signal that the Job's state wants."""
        self._queue.add(key)

    async def _send(self, key: Key) -> None:
        state = self._states.get(key)
        if state is None or state.signal is None:
            return
        signal = state.signal
        is_accepted = await self._send_signal(state.launch, signal, is_repeated=state.is_repeated)
        fields = {"run": state.launch.run.name, "job": state.launch.job_name, "doing": str(signal.doing)}
        logger.info("signalled" if is_accepted else "no workflow to signal", extra=fields)
        state.inputs = ()
        if state.signal is signal:
            state.plan_repetition(now=asyncio.get_running_loop().time())
            if is_accepted:
                _acknowledge(state, signal)
        self._on_sent(key)

    async def _send_signal(self, launch: Launch, signal: WantedSignal, *, is_repeated: bool) -> bool:
        if signal.doing is Doing.RUNNING:
            started = Started(
                job_uid=launch.job_uid, launch=launch.launch, pod_uid=signal.pod_uid, started_at=signal.started_at
            )
            return await self._signals.started(launch.run, started)
        ended = Ended(job_uid=launch.job_uid, launch=launch.launch, pod_uid=signal.pod_uid)
        return await self._signals.ended(launch.run, ended, is_repeated=is_repeated)


def _acknowledge(state: JobState, signal: WantedSignal) -> None:
    """A start and a Pod that was taken away are acknowledged by the workflow's acceptance; the others by what follows."""
    if signal.doing is Doing.RUNNING:
        state.pod_uid, state.is_known, state.signal = signal.pod_uid, True, None
    elif signal.doing is Doing.TAKEN:
        state.pod_uid, state.is_known, state.signal = "", True, None
