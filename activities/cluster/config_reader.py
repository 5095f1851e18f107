"""Reads the InferenceConfig of a run and checks whether the run may use it."""

from collections.abc import Callable

from pydantic import ValidationError

from activities.rules.diagnosis import CREATE_IT
from activities.rules.launch_blocked import LaunchBlocked
from inferrun.control.run_defaults import Defaults
from inferrun.kube.client import KubeClient
from inferrun.kube.errors import Forbidden, NotFound
from inferrun.kube.objects import CONFIGS, Object, unreadable_because
from inferrun.reasons import Reason
from inferrun.resources import InferenceConfig, InferenceRun, parse_config
from inferrun.resources.validation import config_problems, describe, parse_problems
from inferrun.text import one_line


class ConfigReader:
    """Applies the operator's current settings: `defaults`, and `runner_account`, the SA_RUNNER setting or empty."""

    def __init__(self, api: KubeClient, *, defaults: Callable[[], Defaults], runner_account: str) -> None:
        self._api = api
        self._defaults = defaults
        self._runner_account = runner_account

    async def read(self, run: InferenceRun) -> InferenceConfig:
        """The run's config. Raises LaunchBlocked if it is missing, invalid or not accessible."""
        name, namespace = run.spec.config_ref.name, run.config_namespace
        self._check_namespace(run, namespace)
        config, problems = _parse(await self._get(name, namespace), allowed_accounts=self._allowed_accounts())
        if problems or config is None:
            raise LaunchBlocked(Reason.CONFIG_NOT_READY, f"InferenceConfig {name}: {problems}")
        return config

    def check_account(self, account: str) -> None:
        """Raise LaunchBlocked unless Pods may use the service account.

        Checked before every Job: the ConfigMap with the snapshot is in the users' namespace, and an account has rights.
        """
        if account and account not in self._allowed_accounts():
            allowed = ", ".join(self._allowed_accounts()) or "none"
            text = f"service account {account!r} is not allowed; allowed: {allowed} (setting allowedServiceAccounts)"
            raise LaunchBlocked(Reason.CONFIG_NOT_READY, text)

    def _check_namespace(self, run: InferenceRun, namespace: str) -> None:
        if namespace == run.metadata.namespace or self._defaults().allow_cross_namespace_config:
            return
        text = (
            f"spec.configRef.namespace {namespace!r} is not the run's namespace, which this installation does not allow "
            "(setting allowCrossNamespaceConfig); copy the InferenceConfig or change the reference"
        )
        raise LaunchBlocked(Reason.CONFIG_NAMESPACE_NOT_ALLOWED, text)

    async def _get(self, name: str, namespace: str) -> Object:
        try:
            return await self._api.get(CONFIGS, namespace, name)
        except Forbidden as error:
            text = (
                f"spec.configRef.namespace {namespace!r} is not accessible to this installation: {one_line(str(error))}"
            )
            raise LaunchBlocked(Reason.CONFIG_NAMESPACE_NOT_ALLOWED, text) from error
        except NotFound:
            text = f"spec.configRef: InferenceConfig {name!r} does not exist in namespace {namespace}; {CREATE_IT}"
            raise LaunchBlocked(Reason.CONFIG_NOT_FOUND, text) from None

    def _allowed_accounts(self) -> tuple[str, ...]:
        own = self._runner_account
        return (*self._defaults().allowed_service_accounts, *([own] if own else []))


def _parse(stored: Object, *, allowed_accounts: tuple[str, ...]) -> tuple[InferenceConfig | None, str]:
    """The config, and what is wrong with it as text, empty if nothing is."""
    if reason := unreadable_because(stored):
        return None, reason
    try:
        config = parse_config(stored)
    except ValidationError as error:
        return None, describe(parse_problems(error))
    problems = config_problems(config, allowed_service_accounts=allowed_accounts)
    return config, describe(problems) if problems else ""
