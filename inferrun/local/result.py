"""Executes a run on this machine, from the request to the result."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final

from pydantic import PrivateAttr

from inferrun.client.errors import InvalidRequest, RunFailed
from inferrun.launches.compilation import compile_run
from inferrun.launches.input_run import (
    input_reference,
    input_run,
    pinned_input_run,
)
from inferrun.launches.input_run import (
    missing as missing_input,
)
from inferrun.launches.launch_blocked import LaunchBlocked
from inferrun.launches.retried_run import missing
from inferrun.launches.snapshot import CompiledRun, service_of
from inferrun.local.execution import Event, LocalRun, OnEvent
from inferrun.local.request import WHEN_READY, LocalRequest, Source, request_of
from inferrun.local.spare import SpareProcess
from inferrun.local.state import FOLDER, LocalState
from inferrun.reasons import Phase
from inferrun.resources import InferenceRun
from inferrun.run_defaults import Defaults
from inferrun.run_result import RunResult, result_of

if TYPE_CHECKING:
    from inferrun.results import PredictedRows

DEFAULTS: Final = Defaults(allowed_addresses=("0.0.0.0/0", "::/0"), backoff_limit=0)
"""The settings of the installation that this machine is. It may reach every address that its user
may reach. Without a backoffLimit, a failed run ends at once: its user is there to repeat the
command, which goes on after the last commit."""

RETRY_SECONDS: Final = "10"
"""For which a failed request is retried, instead of a minute, for the same reason."""

PROGRESS_SECONDS: Final = "0.5"


class LaunchRefused(InvalidRequest):
    """The run is not executed, for the `reason` and with the `message` that its status would have."""

    def __init__(self, blocker: LaunchBlocked, *, fix: str) -> None:
        super().__init__(f"{blocker.reason}: {blocker.message}", fix=fix)
        self.reason = blocker.reason
        self.message = blocker.message


class LocalResult(RunResult):
    """How a run ended that was executed on this machine."""

    _run: InferenceRun = PrivateAttr()
    _request: LocalRequest = PrivateAttr()

    @classmethod
    def of(cls, run: InferenceRun, request: LocalRequest) -> "LocalResult":
        """The result of a run that has ended."""
        result = cls.model_validate(result_of(run).model_dump(by_alias=True))
        result._run, result._request = run, request
        return result

    def results(self, *, join_input: bool = False) -> "PredictedRows":
        """What it predicted, as `inferrun.results.read_results` returns it. Raises ResultsError."""
        from inferrun.results import read_results  # noqa: PLC0415  what a run does not need before it has ended

        secrets = self._request.machine.secrets

        def read_secret(name: str) -> Mapping[str, str]:
            return {key: value.decode(errors="replace") for key, value in secrets[name].items()}

        return read_results(
            self._run,
            directory=dict(self._request.machine.claims),
            read_secret=read_secret if secrets else None,
            join_input=join_input,
        )


def run(
    *sources: Source,
    claims: Mapping[str, Path | str] | None = None,
    secrets: Mapping[str, Mapping[str, str | bytes]] | None = None,
    model_url: str = "",
    limit: int = 0,
    kubeconfig: Path | str | None = None,
    context: str | None = None,
    fresh: bool = False,
    state: Path | str = FOLDER,
    on_event: OnEvent | None = None,
) -> LocalResult:
    """Execute a run on this machine, and return its result as the client's `wait` does.

    `sources` are files with manifests, manifests as dicts, or models: an InferenceConfig, and unless
    it is executed as it is, an InferenceRun. `claims` are folders by the names of claims, `secrets`
    the values of Secrets by name and key. `model_url` replaces the address of the model; `limit` is
    the number of records that are read, 0 for all. `kubeconfig` and `context` select the cluster of a
    model that KServe serves, as for kubectl. A run that was interrupted goes on after its last
    commit, and one that has succeeded with the same request is not executed again, unless `fresh`.
    `state` is the folder in which this machine keeps what it knows of its runs.

    Raises InvalidRequest, and RunFailed unless the run succeeded; KeyboardInterrupt stops it.
    """
    given = {
        name: {
            key: value.encode() if isinstance(value, str) else value for key, value in keys.items()
        }
        for name, keys in (secrets or {}).items()
    }
    request = request_of(
        sources,
        claims=claims or {},
        secrets=given,
        model_url=model_url,
        limit=limit,
        kubeconfig=Path(kubeconfig) if kubeconfig is not None else None,
        context=context,
        environment=os.environ,
    )
    return execute(request, LocalState(Path(state)), fresh=fresh, on_event=on_event or _nothing)


def execute(
    request: LocalRequest,
    state: LocalState,
    *,
    fresh: bool = False,
    on_event: OnEvent,
    on_wait: Callable[[], None] = lambda: None,
    spare: SpareProcess | None = None,
) -> LocalResult:
    """The same with a request that was checked. `on_wait` is called before this waits for another
    process that executes the run; `spare` was started in advance. Raises Interrupted after Ctrl-C.
    """
    run, asked = request.run, request.digest
    name = run.metadata.name
    if request.cluster is not None and not run.metadata.namespace:
        namespace = _cluster_model().namespace_of(request.cluster)
        metadata = run.metadata.model_copy(update={"namespace": namespace})
        run = run.model_copy(update={"metadata": metadata})
    with state.locked(name, on_wait=on_wait) as lock:
        if fresh:
            state.forget(name)
        begun = state.begin(run, request=asked)
        if begun.status.phase is Phase.SUCCEEDED:
            on_event(Event("ended", begun))
            return LocalResult.of(begun, request)
        with _compiled(begun, request, state) as compiled:
            local = LocalRun(
                begun,
                compiled,
                request.machine,
                folder=state.scratch(name),
                lock=lock,
                spare=spare,
                write=lambda current: state.write(current, request=asked),
                on_event=on_event,
                more={
                    "INFERRUN_RETRY_SECONDS": RETRY_SECONDS,
                    "INFERRUN_PROGRESS_SECONDS": PROGRESS_SECONDS,
                    **({"INFERRUN_RECORD_LIMIT": str(request.limit)} if request.limit else {}),
                },
            )
            ended = local.execute()
    result = LocalResult.of(ended, request)
    if result.phase is not Phase.SUCCEEDED:
        raise RunFailed(result)
    return result


@contextmanager
def _compiled(
    begun: InferenceRun, request: LocalRequest, state: LocalState
) -> Iterator[CompiledRun]:
    """Contract and snapshot, as a worker compiles them; a model in a cluster is reached as long as
    the context is open. Raises InvalidRequest."""
    with ExitStack() as stack:
        try:
            compiled = _compile(begun, request, state, stack=stack)
        except LaunchBlocked as blocker:
            if blocker.service is not None:
                fix = WHEN_READY
            else:
                fix = "execute that run on this machine first" if blocker.is_retryable else ""
            raise LaunchRefused(blocker, fix=fix) from blocker
        yield compiled


def _compile(
    begun: InferenceRun, request: LocalRequest, state: LocalState, *, stack: ExitStack
) -> CompiledRun:
    """The same. Raises LaunchBlocked, too."""
    config = request.with_model()
    earlier = state.find_run(begun.spec.retry_of) if begun.spec.retry_of else None
    if begun.spec.retry_of and earlier is None:
        raise missing(begun)
    reference = input_reference(begun, config, runner_image=DEFAULTS.runner_image)
    read = None
    if reference is not None:
        read = pinned_input_run(begun) or (pinned_input_run(earlier) if earlier else None)
        if read is None:
            found = state.find_run(reference.name)
            if found is None:
                raise missing_input(reference, None)
            read = input_run(found)
    service = service_of(begun, config, runner_image=DEFAULTS.runner_image)
    address = None
    if service is not None and request.cluster is not None:
        address = stack.enter_context(_cluster_model().reached(service, request.cluster))
    return compile_run(
        begun,
        config,
        defaults=DEFAULTS,
        runner_account="",
        address=address,
        earlier=earlier,
        input_run=read,
    )


def _cluster_model() -> ModuleType:
    """What reaches a model in a cluster, whose packages nothing else needs. Raises
    InvalidRequest."""
    try:
        from inferrun.local import cluster_model  # noqa: PLC0415  see above
    except ModuleNotFoundError as error:
        raise InvalidRequest(
            f"the model is in a cluster, and {error.name} is not installed",
            fix="pip install 'inferrun[client]', or give an address of the model with --model-url",
        ) from error
    return cluster_model


def _nothing(_: Event) -> None:
    """Nobody follows the run."""
