"""Sends the signals that the reconciler wants, with workers of its own, and repeats those that nobody acknowledges.

Workflows execute what follows from an `ended` in the order in which it arrives, whatever their namespace. Of the launches of a
namespace, only a few are therefore signalled at a time; the next one follows when the end of one of them has been dealt with.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping

from activities.rules.observation import Doing, Launch
from inferrun.control.turns import Turns
from inferrun.control.work_queue import WorkQueue
from inferrun.kube.informer import Key
from worker.observer.job_state import JobState, WantedSignal
from worker.observer.run_signals import SignalSender
from workflows.signals import Ended, Started

logger = logging.getLogger(__name__)

WORKERS = 50

ENDS_AT_A_TIME = 8
"""Ends of a namespace with which workflows deal at a time. That is bound by CPU, so more would not make them faster."""

PATIENCE_SECONDS = 1.0
"""After this time an end counts as dealt with, whatever is known of it: its workflow may stop Pods, or no worker may be running."""


class SignalQueue:
    """Run it as one task. `on_sent` is called with the key of the Job after each signal."""

    def __init__(
        self, states: Mapping[Key, JobState], signals: SignalSender, *, on_sent: Callable[[Key], None]
    ) -> None:
        self._states = states
        self._signals = signals
        self._on_sent = on_sent
        self._queue: WorkQueue[Key] = WorkQueue(self._send, workers=WORKERS, group=lambda key: key[0])
        self._turns: Turns[Key] = Turns(size=ENDS_AT_A_TIME, group=lambda key: key[0], resume=self._queue.add)

    async def run(self) -> None:
        """Send until cancelled."""
        await self._queue.run()

    def add(self, key: Key) -> None:
        """Send the signal that the Job's state wants."""
        self._queue.add(key)

    def settle(self, key: Key) -> None:
        """The end of the Job's launch has been dealt with, or is none."""
        self._turns.leave(key)

    async def _send(self, key: Key) -> None:
        state = self._states.get(key)
        if state is None or state.signal is None:
            self.settle(key)
            return
        signal = state.signal
        if signal.doing is not Doing.RUNNING:
            if not self._turns.take(key):
                return
            asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self.settle, key)
        await self._send_now(key, state, signal)

    async def _send_now(self, key: Key, state: JobState, signal: WantedSignal) -> None:
        is_accepted = await self._send_signal(state.launch, signal, is_repeated=state.is_repeated)
        fields = {"run": state.launch.run.name, "job": state.launch.job_name, "doing": str(signal.doing)}
        logger.info("signalled" if is_accepted else "no workflow to signal", extra=fields)
        state.inputs = ()
        if state.signal is signal:
            state.plan_repetition(now=asyncio.get_running_loop().time())
            if is_accepted:
                _acknowledge(state, signal, now=asyncio.get_running_loop().time())
        self._on_sent(key)

    async def _send_signal(self, launch: Launch, signal: WantedSignal, *, is_repeated: bool) -> bool:
        if signal.doing is Doing.RUNNING:
            started = Started(
                job_uid=launch.job_uid, launch=launch.launch, pod_uid=signal.pod_uid, started_at=signal.started_at
            )
            return await self._signals.started(launch.run, started)
        # With the others, nothing has happened to the Pod.
        pod_uid = signal.pod_uid if signal.doing.needs_judgement else ""
        ended = Ended(job_uid=launch.job_uid, launch=launch.launch, pod_uid=pod_uid)
        return await self._signals.ended(launch.run, ended, is_repeated=is_repeated)


def _acknowledge(state: JobState, signal: WantedSignal, *, now: float) -> None:
    """A start, a Pod that was taken away and one that lacks something are acknowledged by the workflow's acceptance; the others by
    what follows.
    """
    if signal.doing is Doing.RUNNING:
        state.pod_uid, state.is_known, state.signal = signal.pod_uid, True, None
    elif signal.doing is Doing.TAKEN:
        state.pod_uid, state.is_known, state.signal = "", True, None
    elif signal.doing is Doing.WAITING:
        state.helped_at, state.signal = now, None
