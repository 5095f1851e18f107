"""Reads the InferenceConfig of a run and checks whether the run may use it."""

from collections.abc import Callable
from dataclasses import dataclass

from pydantic import ValidationError

from activities.cluster.object_reads import ObjectReads
from activities.rules.diagnosis import CREATE_IT
from activities.rules.launch_blocked import LaunchBlocked
from activities.rules.snapshot import Snapshot
from inferrun import wellknown
from inferrun.control.allowed import Allowed
from inferrun.control.run_defaults import Defaults
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Forbidden, NotFound
from inferrun.kube.grants import may_refer, refusal
from inferrun.kube.objects import CONFIGS, Object, unreadable_because
from inferrun.reasons import Reason
from inferrun.resources import InferenceConfig, InferenceRun, parse_config
from inferrun.resources.validation import config_problems, describe, parse_problems
from inferrun.text import one_line


@dataclass(frozen=True)
class _Parsed:
    """An object that was read, and what came of it under the settings of that time."""

    stored: Object
    allowed: Allowed
    config: InferenceConfig | None
    problems: str


class ConfigReader:
    """Applies the operator's current settings: `defaults`, and `runner_account`, the SA_RUNNER setting or empty."""

    def __init__(self, api: KubeClient, *, defaults: Callable[[], Defaults], runner_account: str) -> None:
        self._api = api
        self._reads = ObjectReads(api)
        self._defaults = defaults
        self._runner_account = runner_account
        self._latest: _Parsed | None = None

    @property
    def _allowed(self) -> Allowed:
        return Allowed.read(self._defaults(), runner_account=self._runner_account)

    async def read(self, run: InferenceRun, *, after: float | None = None) -> InferenceConfig:
        """The run's config from a read after that time of the event loop's clock; None: read now.

        The reference must have been checked. Raises LaunchBlocked if the config is missing, invalid or not accessible.
        """
        name, namespace = run.spec.config_ref.name, run.config_namespace
        config, problems = self._parse(await self._get(name, namespace, after=after))
        if problems or config is None:
            raise LaunchBlocked(Reason.CONFIG_NOT_READY, f"InferenceConfig {name}: {problems}")
        return config

    def _parse(self, stored: Object) -> tuple[InferenceConfig | None, str]:
        """The same object is parsed once: launches share reads, and most launches in a row are of one config."""
        latest, allowed = self._latest, self._allowed
        if latest is None or latest.stored is not stored or latest.allowed != allowed:
            latest = self._latest = _Parsed(stored, allowed, *_parse(stored, allowed=allowed))
        return latest.config, latest.problems

    async def find(self, run: InferenceRun) -> InferenceConfig | None:
        """The run's config, even if runs cannot use it; None if it is missing, not accessible or cannot be parsed."""
        name, namespace = run.spec.config_ref.name, run.config_namespace
        try:
            await self.check_reference(run)
            config, _ = _parse(await self._get(name, namespace, after=None), allowed=self._allowed)
        except LaunchBlocked:
            return None
        return config

    def check_launch(self, snapshot: Snapshot) -> None:
        """Raise LaunchBlocked unless Pods may use the snapshot's service account and image.

        Checked before every Job: the settings may have changed since the run started.
        """
        image = "" if snapshot.is_our_runner else snapshot.image
        problem = self._allowed.problem_of_launch(service_account=snapshot.service_account, image=image)
        if problem:
            raise LaunchBlocked(Reason.CONFIG_NOT_READY, problem)

    async def check_reference(self, run: InferenceRun) -> None:
        """Raise LaunchBlocked unless the run may refer to its config. Checked before every Job: a grant may be withdrawn."""
        own, other = run.metadata.namespace, run.config_namespace
        if own == other or self._defaults().allow_cross_namespace_config:
            return
        kind, name = wellknown.CONFIG_KIND, run.spec.config_ref.name
        if await may_refer(self._api, kind=kind, from_namespace=own, to_namespace=other, name=name):
            return
        field = "spec.configRef.namespace"
        text = refusal(kind=kind, field=field, from_namespace=own, to_namespace=other)
        more = "; the operator can allow all such references (setting allowCrossNamespaceConfig)"
        raise LaunchBlocked(Reason.CONFIG_NAMESPACE_NOT_ALLOWED, text + more)

    async def _get(self, name: str, namespace: str, *, after: float | None) -> Object:
        try:
            return await self._reads.get(CONFIGS, namespace, name, after=after)
        except Forbidden as error:
            text = (
                f"spec.configRef.namespace {namespace!r} is not accessible to this installation: {one_line(str(error))}"
            )
            raise LaunchBlocked(Reason.CONFIG_NAMESPACE_NOT_ALLOWED, text) from error
        except NotFound:
            text = f"spec.configRef: InferenceConfig {name!r} does not exist in namespace {namespace}; {CREATE_IT}"
            raise LaunchBlocked(Reason.CONFIG_NOT_FOUND, text) from None


def _parse(stored: Object, *, allowed: Allowed) -> tuple[InferenceConfig | None, str]:
    """The config, and what is wrong with it as text, empty if nothing is."""
    if reason := unreadable_because(stored):
        return None, reason
    try:
        config = parse_config(stored)
    except ValidationError as error:
        return None, describe(parse_problems(error))
    problems = (*config_problems(config), *allowed.problems(config))
    return config, describe(problems) if problems else ""
