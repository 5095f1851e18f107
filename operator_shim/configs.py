"""Reports on the status of a config whether runs can use it and, if not, which fields are invalid.

An edit is also reported in an Event, if there are runs in progress that it does not affect. The module reads the digests of
configs (`operator_shim.decisions`) and the stubs of those that were not parsed.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress

from pydantic import ValidationError

from control.cluster.events import EventRecorder, Subject
from control.informer import Key
from inferrun import wellknown
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Conflict, NotFound
from inferrun.kube.objects import CONFIGS, Object, unreadable_because
from inferrun.reasons import Reason
from inferrun.resources import Condition, ConditionStatus, InferenceConfigStatus
from inferrun.run_defaults import Defaults
from operator_shim.decisions import config_verdict, digest_of, edit_notice


class ConfigStatuses:
    """Writes the statuses of configs. `read` returns a config as last seen by the watch, `active_runs` names the runs in progress
    that started with the config of that key.
    """

    def __init__(
        self,
        api: KubeClient,
        *,
        read: Callable[[Key], Object | None],
        events: EventRecorder,
        active_runs: Callable[[Key], Awaitable[list[str]]],
        defaults: Callable[[], Defaults],
        runner_account: str,
    ) -> None:
        self._api = api
        self._read = read
        self._events = events
        self._active_runs = active_runs
        self._defaults = defaults
        self._runner_account = runner_account

    async def update(self, key: Key) -> None:
        """Write the status if it has changed; on a conflict the watch delivers the newer config."""
        item = self._read(key)
        if item is None:
            return
        metadata = item["metadata"]
        if (metadata.get("annotations") or {}).get(wellknown.ANNOTATION_PAUSED) == "true":
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
            await self._api.patch(CONFIGS, metadata["namespace"], metadata["name"], body, sub="status")

    async def _report(self, item: Object) -> None:
        """Emit Events, before the status is written; if that fails, they are emitted again, with no effect.

        One is about an edit since the last status was written. The others are about what is valid and should be changed: they
        show where the config was applied, unlike a condition.
        """
        metadata, observed = item["metadata"], _status_of(item).observed_generation
        subject = Subject(wellknown.CONFIG_KIND, metadata["namespace"], metadata["name"], metadata["uid"])
        if observed is not None and observed < metadata.get("generation", 0):
            runs = await self._active_runs((metadata["namespace"], metadata["name"]))
            if notice := edit_notice(runs, generation=metadata["generation"]):
                await self._events.record_on(subject, reason=Reason.CONFIG_CHANGED, message=notice, is_warning=False)
        for message in () if unreadable_because(item) else digest_of(item).warnings:
            await self._events.record_on(subject, reason=Reason.CREDENTIAL_IN_CONFIG, message=message, is_warning=True)

    def _wanted(self, item: Object) -> InferenceConfigStatus | None:
        if unreadable := unreadable_because(item):
            reason, message = Reason.INVALID_SPEC, f"the InferenceConfig was not read: {unreadable}"
        else:
            verdict = config_verdict(digest_of(item), self._defaults(), runner_account=self._runner_account)
            reason, message = verdict.reason, verdict.message
        status = ConditionStatus.TRUE if reason is Reason.READY else ConditionStatus.FALSE
        generation = item["metadata"].get("generation")
        before = _status_of(item).condition("Ready")
        is_same = before is not None and before.status == status
        condition = Condition(
            type="Ready",
            status=status,
            reason=str(reason),
            message=message,
            last_transition_time=before.last_transition_time if before and is_same else self._api.now(),
            observed_generation=generation,
        )
        if condition == before:
            return None
        conditions = [condition]
        if status is ConditionStatus.FALSE:  # `Stalled` is present only if true, as kstatus defines it
            conditions.append(condition.model_copy(update={"type": "Stalled", "status": ConditionStatus.TRUE}))
        return InferenceConfigStatus(conditions=tuple(conditions), observed_generation=generation)


def _status_of(item: Object) -> InferenceConfigStatus:
    """The status; an empty one in place of one that cannot be read."""
    try:
        return InferenceConfigStatus.model_validate(item.get("status") or {})
    except ValidationError:
        return InferenceConfigStatus()
