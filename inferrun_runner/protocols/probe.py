"""Asks a model server: whether its model is ready, with the protocol of the model or each that it
may have, and which one it has.

Asked for are the model's metadata or readiness of V2, its status of V1, and the list of models of
OpenAI's API, each once.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from inferrun.contract import Model
from inferrun.plugins import Fault, FaultKind, Limits, ModelContext, RunnerError
from inferrun.plugins.http import ExchangeFailed
from inferrun_runner.network.exchanges import Refused, ResponseTooLarge
from inferrun_runner.network.model_headers import ModelHeaders, proxy_of
from inferrun_runner.network.model_server import JSON_HEADERS, open_model_server
from inferrun_runner.network.plain_client import PlainClient, open_plain_client
from inferrun_runner.network.tls import context_of
from inferrun_runner.protocols.model_urls import description_url, parts_of, protocol_in
from inferrun_runner.protocols.protocol_name import (
    V2,
    candidates,
    is_answer,
    named_protocol,
    protocol_of,
)
from inferrun_runner.protocols.readiness import (
    GRPC,
    PROBED,
    Readiness,
    judge,
    judge_guess,
    probe_url,
)

_log = logging.getLogger(__name__)

PROBE_SECONDS: Final = 60.0
"""Time limit of a probe. Knative holds a request until a replica runs; a replica continues to start
if the request is given up."""

MAX_BODY: Final = 4 * 1024 * 1024
"""Bytes of an answer; a list of models may be long."""


@asynccontextmanager
async def open_probe(
    model: Model, limits: Limits, *, endpoints: Path, accepts_description: bool = False
) -> AsyncIterator[Callable[[], Awaitable[Readiness]]]:
    """A function that asks the server once. It raises Refused for an address that runs must not
    reach.

    `accepts_description`: a V2 server that does not know the path of readiness is ready if it
    describes the model.
    """
    if protocol_of(model) == GRPC:
        from inferrun_runner.protocols.v2.grpc_client import open_grpc_probe  # noqa: PLC0415 -- few models speak gRPC, and its import takes long

        async with open_grpc_probe(
            model, limits, seconds=PROBE_SECONDS, endpoints=endpoints
        ) as probe:
            yield probe
        return
    tls, proxy = context_of(model, endpoints), proxy_of(model, endpoints)
    headers = {**JSON_HEADERS, **ModelHeaders(model, endpoints, has_secrets=False).current()}
    async with open_plain_client(limits, seconds=PROBE_SECONDS, tls=tls) as client:
        models = candidates(model)

        async def ask() -> Readiness:
            """Ask as the first protocol does, and while the server does not know the path, as the
            others do."""
            first = finding = await _probe(client, models[0], headers=headers, proxy=proxy)
            for other in models[1:]:
                if finding.is_unknown_path:
                    finding = await _probe(
                        client, other, headers=headers, proxy=proxy, judge_answer=judge_guess
                    )
            if first.is_unknown_path and accepts_description and protocol_of(models[0]) == V2:
                url = description_url(V2, models[0].model_url, models[0].model_name)
                finding = await _probe(
                    client,
                    models[0],
                    headers=headers,
                    proxy=proxy,
                    judge_answer=judge_guess,
                    url=url,
                )
            return finding if finding.is_ready else first

        yield ask


async def _probe(
    client: PlainClient,
    model: Model,
    *,
    headers: Mapping[str, str],
    proxy: str,
    judge_answer: Callable[..., Readiness] = judge,
    url: str = "",
) -> Readiness:
    try:
        response = await client.exchange(
            "GET",
            url or probe_url(model),
            None,
            headers=headers,
            limit=MAX_BODY,
            proxy=proxy or None,
        )
    except Refused:
        raise
    except ResponseTooLarge:
        return Readiness(is_ready=False, seen=f"an answer of more than {MAX_BODY} bytes")
    except ExchangeFailed as error:
        answers = error.was_sent and error.kind is not FaultKind.TIMEOUT
        # it does not speak HTTP, but it answers
        is_other = answers and protocol_of(model) not in PROBED
        return Readiness(is_ready=is_other, seen=str(error))
    return judge_answer(model, status=response.status, body=response.body)


async def with_protocol(model: Model, context: ModelContext) -> Model:
    """Return the model with its protocol: that of the config or of the URL, otherwise one that the
    server has.

    Without an answer it is the default, whose own requests then report what is wrong. Raises
    ContractError if the URL is invalid.
    """
    if named_protocol(model)[1]:
        return model
    possible = candidates(model)
    if protocol_in(model.model_url):
        return possible[0]
    async with open_model_server(model, parts_of(model.model_url).geturl(), context) as server:
        for one in possible:
            name = protocol_of(one)
            try:
                response = await server.send(
                    "GET", description_url(name, server.url, model.model_name)
                )
            except (Fault, RunnerError):
                return model
            if response.status == 200 and is_answer(response.body, protocol=name):
                _log.info("the protocol was found", extra={"protocol": name})
                return one
    return model
