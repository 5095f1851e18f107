"""Finds the protocol of a model server whose config names none: by the URL, or by asking the server.

Asked are the model's metadata of V2, its status of V1, and the list of models of OpenAI's API, each once. Without an answer the
protocol is the default, whose own requests then report what is wrong.
"""

import logging

from inferrun.contract import Model
from inferrun.plugins import Fault, ModelContext, RunnerError
from runner.network.model_server import open_model_server
from runner.protocols.model_urls import description_url, parts_of, protocol_in
from runner.protocols.protocol_name import candidates, is_answer, named_protocol, protocol_of

_log = logging.getLogger(__name__)


async def with_protocol(model: Model, context: ModelContext) -> Model:
    """Return the model with its protocol. Raises ContractError if the URL is invalid."""
    if named_protocol(model)[1]:
        return model
    possible = candidates(model)
    if protocol_in(model.model_url):
        return possible[0]
    async with open_model_server(model, parts_of(model.model_url).geturl(), context) as server:
        for one in possible:
            name = protocol_of(one)
            try:
                response = await server.send("GET", description_url(name, server.url, model.model_name))
            except (Fault, RunnerError):
                return model
            if response.status == 200 and is_answer(response.body, protocol=name):
                _log.info("the protocol was found", extra={"protocol": name})
                return one
    return model
