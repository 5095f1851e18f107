"""Reads the InferenceConfig of a run and checks whether the run may use it."""

from collections.abc import Callable

from pydantic import ValidationError

from control.cluster.granted import may_refer
from control.launches.diagnosis import CREATE_IT
from control.trust.allowed import disallowed
from control.trust.grants import refusal
from inferrun import wellknown
from inferrun.fields.problems import describe, parse_problems
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Forbidden, NotFound
from inferrun.kube.objects import CONFIGS, unreadable_because
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.launches.snapshot import Snapshot
from inferrun.reasons import Reason
from inferrun.resources import InferenceConfig, InferenceRun, parse_config
from inferrun.resources.validation import config_problems
from inferrun.run_defaults import Defaults
from inferrun.text import one_line


class ConfigReader:
    """Applies the operator's current settings: `defaults`, and `runner_account`, the SA_RUNNER
    setting or empty."""

    def __init__(
        self, api: KubeClient, *, defaults: Callable[[], Defaults], runner_account: str
    ) -> None:
        self._api = api
        self._defaults = defaults
        self._runner_account = runner_account

    async def read(self, run: InferenceRun) -> InferenceConfig:
        """The run's config. The reference must have been checked.

        Raises LaunchBlocked if the config is missing, invalid or not accessible.
        """
        config, problems = await self._read(run)
        if problems or config is None:
            raise LaunchBlocked(
                Reason.CONFIG_NOT_READY, f"InferenceConfig {run.config_name}: {problems}"
            )
        return config

    async def find(self, run: InferenceRun) -> InferenceConfig | None:
        """The run's config, even if runs cannot use it; None if it is missing, not accessible or
        cannot be parsed."""
        try:
            await self.check_reference(run)
            config, _ = await self._read(run)
        except LaunchBlocked:
            return None
        return config

    def check_launch(self, snapshot: Snapshot) -> None:
        """Raise LaunchBlocked unless Pods may use the snapshot's service account, image and
        placement.

        Checked before every Job: the settings may have changed since the run started.
        """
        image = None if snapshot.is_our_runner else snapshot.image or None
        problems = disallowed(
            self._defaults(),
            runner_account=self._runner_account,
            service_account=snapshot.service_account or None,
            image=image,
            placement=snapshot.placement,
        )
        if problems:
            raise LaunchBlocked(Reason.CONFIG_NOT_READY, describe(problems))

    async def check_reference(self, run: InferenceRun) -> None:
        """Raise LaunchBlocked unless the run may refer to its config. Checked before every Job: a
        grant may be withdrawn."""
        own, other = run.metadata.namespace, run.config_namespace
        if own == other or self._defaults().allow_cross_namespace_config:
            return
        kind, name = wellknown.CONFIG_KIND, run.config_name
        if await may_refer(self._api, kind=kind, from_namespace=own, to_namespace=other, name=name):
            return
        field = "spec.configRef.namespace"
        text = refusal(kind=kind, field=field, from_namespace=own, to_namespace=other)
        more = "; the operator can allow all such references (setting allowCrossNamespaceConfig)"
        raise LaunchBlocked(Reason.CONFIG_NAMESPACE_NOT_ALLOWED, text + more)

    async def _read(self, run: InferenceRun) -> tuple[InferenceConfig | None, str]:
        """The config, and what is wrong with it as text, empty if nothing is."""
        name, namespace = run.config_name, run.config_namespace
        try:
            stored = await self._api.get(CONFIGS, namespace, name)
        except Forbidden as error:
            field = f"spec.configRef.namespace {namespace!r}"
            text = f"{field} is not accessible to this installation: {one_line(str(error))}"
            raise LaunchBlocked(Reason.CONFIG_NAMESPACE_NOT_ALLOWED, text) from error
        except NotFound:
            text = f"spec.configRef: InferenceConfig {name!r} does not exist in namespace {namespace}; {CREATE_IT}"
            raise LaunchBlocked(Reason.CONFIG_NOT_FOUND, text) from None
        if reason := unreadable_because(stored):
            return None, reason
        try:
            config = parse_config(stored)
        except ValidationError as error:
            return None, describe(parse_problems(error))
        found = disallowed(
            self._defaults(),
            runner_account=self._runner_account,
            service_account=config.spec.service_account_name,
            image=config.spec.image,
            placement=config.spec.placement,
        )
        problems = (*config_problems(config), *found)
        return config, describe(problems) if problems else ""
