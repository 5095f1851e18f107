"""The client for programs without an event loop: `AsyncClient` on a loop in a thread of its own."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from inferrun.client.async_client import AsyncClient

Value = TypeVar("Value")
Arguments = ParamSpec("Arguments")


def _blocking(
    # Any: asyncio's own business
    method: Callable[Concatenate[AsyncClient, Arguments], Coroutine[Any, Any, Value]],
) -> Callable[Concatenate["Client", Arguments], Value]:
    """The method of `Client` that waits for that of `AsyncClient`, with its arguments and its
    description."""

    @wraps(method)
    def call(client: "Client", /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Value:
        return client._run(method(client._client, *args, **kwargs))

    return call


def _iterating(
    method: Callable[Concatenate[AsyncClient, Arguments], AsyncGenerator[Value, None]],
) -> Callable[Concatenate["Client", Arguments], Iterator[Value]]:
    """The method of `Client` that iterates over what a method of `AsyncClient` yields."""

    @wraps(method)
    def iterate(
        client: "Client", /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Iterator[Value]:
        values = method(client._client, *args, **kwargs)
        try:
            while True:
                try:
                    value = client._run(anext(values))
                except StopAsyncIteration:
                    return
                yield value
        finally:
            client._run(values.aclose())

    return iterate


class Client:
    """Starts, finds, follows and controls runs. All methods raise `ClientError`, and are those of
    `AsyncClient`."""

    def __init__(
        self,
        *,
        namespace: str | None = None,
        kubeconfig: Path | None = None,
        context: str | None = None,
    ) -> None:
        """Connect as `AsyncClient.connect` does."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="inferrun-client", daemon=True
        )
        self._thread.start()
        connecting = AsyncClient.connect(
            namespace=namespace, kubeconfig=kubeconfig, context=context
        )
        try:
            self._client = self._run(connecting)
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._run(self._client.close())
        self._stop()

    @property
    def namespace(self) -> str:
        """Where runs are, if a name does not say it."""
        return self._client.namespace

    submit = _blocking(AsyncClient.submit)
    create = _blocking(AsyncClient.create)
    apply_config = _blocking(AsyncClient.apply_config)
    get = _blocking(AsyncClient.get)
    list = _blocking(AsyncClient.list)
    watch = _iterating(AsyncClient.watch)
    wait = _blocking(AsyncClient.wait)
    cancel = _blocking(AsyncClient.cancel)
    suspend = _blocking(AsyncClient.suspend)
    resume = _blocking(AsyncClient.resume)
    retry = _blocking(AsyncClient.retry)
    backfill = _blocking(AsyncClient.backfill)
    trigger = _blocking(AsyncClient.trigger)
    logs = _iterating(AsyncClient.logs)
    results = _blocking(AsyncClient.results)
    predict = _blocking(AsyncClient.predict)

    def _run(self, work: Coroutine[object, object, Value]) -> Value:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:  # such as KeyboardInterrupt: the loop must not go on with it
            future.cancel()
            raise

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
