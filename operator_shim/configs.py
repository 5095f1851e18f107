"""Watches configs: reports on the status of each whether runs can use it and, if not, which fields
are invalid, and has the runs that wait for one look again.

An edit is also reported in an Event, if there are runs in progress that it does not affect. The
cache keeps the digests of configs (`operator_shim.config_verdicts`) and the stubs of those that
were not parsed.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from pydantic import ValidationError

from control.cluster.events import EventRecorder, Subject
from control.informer import Key
from control.metrics import Metrics
from control.namespaced_informers import NamespacedInformers
from control.survival import surviving
from control.work_queue import WorkQueue
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Conflict, NotFound
from inferrun.kube.namespaces import Namespaces
from inferrun.kube.objects import CONFIGS, Object, annotations_of, status_of, unreadable_because
from inferrun.reasons import Reason
from inferrun.resources import Condition, ConditionStatus, InferenceConfigStatus
from inferrun.run_defaults import Defaults
from inferrun.run_ref import RunRef
from operator_shim.config_verdicts import config_verdict, digest_config, digest_of, edit_notice
from operator_shim.run_loop import RunLoop
from operator_shim.run_plan import News
from operator_shim.run_terms import Awaited, unfinished_with
from operator_shim.run_watch import RunWatch

WORKERS: Final = 2


class Configs:
    """Run it as one task."""

    def __init__(
        self,
        api: KubeClient,
        loop: RunLoop,
        *,
        runs: RunWatch,
        namespaces: Namespaces,
        events: EventRecorder,
        defaults: Callable[[], Defaults],
        runner_account: str,
        metrics: Metrics,
    ) -> None:
        self._api = api
        self._loop = loop
        self._runs = runs
        self._events = events
        self._defaults = defaults
        self._runner_account = runner_account
        self.watch = NamespacedInformers(
            api,
            CONFIGS,
            namespaces=namespaces,
            transform=digest_config,
            listener=self._on_event,
            keeps_stubs=True,
        )
        self._queue: WorkQueue[Key] = WorkQueue(
            self._update, workers=WORKERS, group=lambda key: key[0], metrics=metrics, name="configs"
        )

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.watch.run())
            tasks.create_task(self._queue.run())

    def resync(self) -> None:
        """Look at all statuses again, in the background."""
        for key in self.watch.keys():  # noqa: SIM118 -- not a dict
            self._queue.add(key, background=True)

    def _on_event(self, key: Key, before: Object | None, after: Object | None) -> None:
        is_listed = not self.watch.has_listed(key[0])
        self._queue.add(key, background=is_listed)
        if (
            before
            and after
            and before["metadata"].get("generation") == after["metadata"].get("generation")
        ):
            return
        for _, run in self._runs.find(Awaited(wellknown.CONFIG_KIND, *key)):
            with surviving("the check of a run that waits for its config", about=run):
                self._loop.wake(RunRef.of(run), News.AWAITED_CHANGED, background=is_listed)

    async def _update(self, key: Key) -> None:
        """Write the status if it has changed; on a conflict the watch delivers the newer config."""
        item = self.watch.get(*key)
        if item is None:
            return
        metadata = item["metadata"]
        if annotations_of(item).get(wellknown.ANNOTATION_PAUSED) == "true":
            return
        wanted = self._wanted(item)
        if wanted is None:
            return
        await self._report(item)
        body = {
            "apiVersion": wellknown.API_VERSION,
            "kind": wellknown.CONFIG_KIND,
            "metadata": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            "status": wanted.to_manifest(),
        }
        with suppress(Conflict, NotFound):
            await self._api.patch(CONFIGS, *key, body, sub="status")

    async def _report(self, item: Object) -> None:
        """Emit Events, before the status is written; if that fails, they are emitted again, with no
        effect.

        One is about an edit since the last status was written. The others are about what is valid
        and should be changed: they show where the config was applied, unlike a condition.
        """
        metadata, observed = item["metadata"], _status_of(item).observed_generation
        subject = Subject(
            wellknown.CONFIG_KIND, metadata["namespace"], metadata["name"], metadata["uid"]
        )
        if observed is not None and observed < metadata.get("generation", 0):
            runs = await self._active_runs(metadata["namespace"], metadata["name"])
            if notice := edit_notice(runs, generation=metadata["generation"]):
                await self._events.record_on(
                    subject, reason=Reason.CONFIG_CHANGED, message=notice, is_warning=False
                )
        for message in () if unreadable_because(item) else digest_of(item).warnings:
            await self._events.record_on(
                subject, reason=Reason.CREDENTIAL_IN_CONFIG, message=message, is_warning=True
            )

    async def _active_runs(self, namespace: str, name: str) -> list[str]:
        """The names of the runs in progress that started with that config; of those elsewhere, with
        their namespaces.
        """
        await self._runs.synced()
        return [
            key[1] if key[0] == namespace else "/".join(key)
            for key, run in self._runs.find(unfinished_with(namespace, name))
            if status_of(run).get("contract")
        ]

    def _wanted(self, item: Object) -> InferenceConfigStatus | None:
        if unreadable := unreadable_because(item):
            reason, message = Reason.INVALID_SPEC, f"the InferenceConfig was not read: {unreadable}"
        else:
            digest, account = digest_of(item), self._runner_account
            reason, message = config_verdict(digest, self._defaults(), runner_account=account)
        status = ConditionStatus.TRUE if reason is Reason.READY else ConditionStatus.FALSE
        generation = item["metadata"].get("generation")
        before = _status_of(item).condition("Ready")
        is_same = before is not None and before.status == status
        condition = Condition(
            type="Ready",
            status=status,
            reason=str(reason),
            message=message,
            last_transition_time=before.last_transition_time
            if before and is_same
            else self._api.now(),
            observed_generation=generation,
        )
        if condition == before:
            return None
        conditions = [condition]
        # `Stalled` is present only if true, as kstatus defines it
        if status is ConditionStatus.FALSE:
            conditions.append(
                condition.model_copy(update={"type": "Stalled", "status": ConditionStatus.TRUE})
            )
        return InferenceConfigStatus(conditions=tuple(conditions), observed_generation=generation)


def _status_of(item: Object) -> InferenceConfigStatus:
    """The status; an empty one in place of one that cannot be read."""
    try:
        return InferenceConfigStatus.model_validate(status_of(item))
    except ValidationError:
        return InferenceConfigStatus()
