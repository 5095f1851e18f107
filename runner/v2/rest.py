"""Speaks V2 REST to a model server, over one pool of connections.

It asks for identity encoding: servers that compress by default spend most of their time on it (measured with MLServer: seven
times slower on large answers). A batch may be sent again after a transient failure, since predicting has no effects.
"""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aiohttp
import orjson

from inferrun.contract import Model
from runner.errors import InferenceError
from runner.http_failures import excerpt, is_transient, layer_of
from runner.retries import TRANSIENT_STATUSES, Transient, seconds_of, with_retries
from runner.seams import Surroundings
from runner.settings import Settings
from runner.v2.address import infer_url, metadata_url
from runner.v2.tensors import InputTensor, decode, encode, input_tensor
from runner.values import Json, Records

_log = logging.getLogger(__name__)

_HEADERS = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}


class V2Rest:
    """One model behind one infer URL."""

    def __init__(self, model: Model, url: str, session: aiohttp.ClientSession, settings: Settings) -> None:
        self._model = model
        self._url = url
        self._session = session
        self._settings = settings
        self._tensor = InputTensor(name=model.model_input_name)

    async def prepare(self) -> None:
        """Read the model's metadata for its input's name and shape."""
        url = metadata_url(self._url)
        status, body = await self._exchange("GET", url)
        metadata: object = None
        if status == 200:
            try:
                metadata = orjson.loads(body)
            except orjson.JSONDecodeError:
                _log.warning("the model's metadata is not JSON; shape [n, m] is assumed")
        else:
            # Not every server has metadata; if the model itself is missing, the first request says so.
            _log.info("the model has no metadata; shape [n, m] is assumed", extra={"status": status})
        self._tensor = input_tensor(metadata, self._model.model_input_name)

    async def predict(self, records: Records) -> Sequence[Json]:
        """Send one batch."""
        status, body = await self._exchange("POST", self._url, encode(records.rows, self._tensor))
        if status != 200:
            raise InferenceError(
                f"{self._who()} answered {status}: {excerpt(body)}{_cure(status)}{self._misfit(records)}"
            )
        try:
            return decode(body, records=len(records.rows))
        except ValueError as error:
            raise InferenceError(
                f"{self._who()} answered 200, but not as the V2 protocol has it: {error}; the body begins: "
                f"{excerpt(body)}"
            ) from error

    async def _exchange(self, method: str, url: str, body: bytes | None = None) -> tuple[int, bytes]:
        async def attempt() -> tuple[int, bytes]:
            try:
                async with self._session.request(
                    method, url, data=body, headers=_HEADERS, allow_redirects=False
                ) as answer:
                    content = await answer.read()
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                failed = InferenceError(f"{self._who()}: {layer_of(error, seconds=self._settings.request_timeout)}")
                raise (Transient(failed) if is_transient(error) else failed) from error
            if answer.status in TRANSIENT_STATUSES:
                busy = InferenceError(f"{self._who()} answered {answer.status}: {excerpt(content)}")
                raise Transient(busy, retry_after=seconds_of(answer.headers.get("Retry-After")))
            return answer.status, content

        return await with_retries(attempt, budget=self._settings.retry_seconds)

    def _misfit(self, records: Records) -> str:
        """Servers answer anything to records of a wrong width; the metadata is a hint and no more, so it refuses nothing."""
        width = len(records.rows[0])
        if self._tensor.width in {0, width}:
            return ""
        return f"; its metadata asks for {self._tensor.width} numbers per record, these have {width}"

    def _who(self) -> str:
        return f"model {self._model.model_name or '(no modelName)'!r} at {self._url}"


def _cure(status: int) -> str:
    match status:
        case 404:
            return "; is kserve.modelUrl right, and the model loaded?"
        case 400 | 422:
            return "; do kserve.modelInputName and the number of values per record fit the model?"
        case 401 | 403:
            return "; the server wants credentials, which the runner does not send"
        case 413:
            return "; the server, or a proxy before it, takes smaller requests only: lower INFERRUN_BATCH_ROWS in the image"
        case _:
            return ""


@asynccontextmanager
async def open_v2(model: Model, around: Surroundings) -> AsyncIterator[V2Rest]:
    """Protocol `v2`."""
    url = infer_url(model.model_url, model.model_name)
    settings = around.settings
    timeout = aiohttp.ClientTimeout(total=settings.request_timeout, sock_connect=min(10.0, settings.request_timeout))
    connector = aiohttp.TCPConnector(limit=settings.concurrency)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        yield V2Rest(model, url, session, settings)
