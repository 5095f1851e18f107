"""Sends prompts that are made of the columns of records to a server with OpenAI's API, and takes
the answers apart.

A record is one request, or part of one if the task is to embed or to moderate texts. Each call is
one try, apart from answers that are asked again because they do not follow the schema.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from inferrun.contract import Request
from inferrun.formats.json_pointer import MISSING, at_pointer, parse_pointer
from inferrun.formats.record_errors import INVALID_PREDICTION
from inferrun.formats.record_keys import record_keys
from inferrun.plugins import (
    Duplicates,
    Limits,
    Model,
    ModelAbilities,
    ModelContext,
    RecordError,
    Records,
    TokenUsage,
)
from inferrun_runner.protocols.model_urls import GENERATING
from inferrun_runner.protocols.openai.requests import is_certain, load_response, usage_of
from inferrun_runner.protocols.openai.server import RequestServer
from inferrun_runner.protocols.prompts import answers
from inferrun_runner.protocols.prompts.answers import InvalidAnswer
from inferrun_runner.protocols.prompts.asking import Reply, Validation, ask
from inferrun_runner.protocols.prompts.bodies import DOCUMENTS, Bodies, Members, encoded
from inferrun_runner.protocols.prompts.predictions import Prediction, Predictions, form_of_schema
from inferrun_runner.protocols.prompts.row_model import (
    RowModel,
    check_request,
    mounted_system,
    templates_of,
)
from inferrun_runner.protocols.prompts.templates import Row, Templates

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T")

_BATCHED = 64
"""Records in a request that may have several, unless the config says another number."""


class PromptModel(RowModel):
    """A model with OpenAI's API."""

    def __init__(
        self,
        request: Request,
        server: RequestServer,
        bodies: Bodies,
        *,
        templates: Templates,
        limits: Limits,
    ) -> None:
        schema = request.response_schema
        members = answers.members_of(request, form_of_schema(schema) if schema else {})
        super().__init__(templates, Predictions(members, required=answers.required_of(request)))
        self._request = request
        self._server = server
        self._bodies = bodies
        self._validation = Validation(schema) if schema else None
        self._outputs = [(one.name, parse_pointer(one.path)) for one in request.outputs]
        most = limits.batch_rows if "batch_rows" in limits.model_fields_set else _BATCHED
        self.max_records: int | None = most if bodies.task.is_batched else 1
        self._samples_length = False
        """Whether the first response says how long embeddings are."""

    @property
    def abilities(self) -> ModelAbilities:
        """Records with the same columns make the same request."""
        return replace(super().abilities, keys_of=self.keys_of)

    def keys_of(self, records: Records, duplicates: Duplicates) -> Sequence[bytes | None]:
        """Return a key for each record; in Auto none unless each is a request whose answer does not
        vary."""
        task, body = self._bodies.task, self._request.body
        is_known = not task.is_batched and (task.path not in GENERATING or is_certain(body))
        if not is_known and duplicates is not Duplicates.SEND_ONCE:
            return ()
        return record_keys(records)

    async def prepare(self) -> None:
        """Check that the server can be reached and accepts the credentials."""
        await self._server.list_models()

    def predicted(self) -> "pyarrow.DataType | None":
        """Return the type of a prediction; None for embeddings whose length the first response
        shows."""
        if self._request.task != "Embedding":
            return super().predicted()
        length = self._request.body.get("dimensions")
        self._samples_length = not isinstance(length, int)
        return self._with_length(length) if isinstance(length, int) else None

    def use_type(self, stored: "pyarrow.DataType") -> None:
        """Return predictions of this type."""
        super().use_type(stored)
        self._samples_length = False

    def body_of(self, row: Row) -> Members:
        """Return the body for a record."""
        return self._bodies.body_of(row)

    async def predict_bodies(
        self, bodies: Sequence[Members]
    ) -> tuple[list[Prediction | RecordError], TokenUsage]:
        """Send the bodies of records, of which there is one unless the task is batched."""
        if not self._bodies.task.is_batched:
            return await self._predict_one(bodies[0])

        def read(response: dict[str, Any]) -> list[dict[str, Any]]:  # Any: foreign JSON
            if self._request.task == "Moderation":
                return answers.moderations_of(response, records=len(bodies))
            return [{"embedding": one} for one in answers.vectors_of(response, records=len(bodies))]

        found, response = await self._post(self._bodies.joined(bodies), read)
        if self._request.task == "Embedding" and isinstance(
            wanted := self._request.body.get("dimensions"), int
        ):
            return [_of_length(one, wanted) for one in found], usage_of(response)
        if self._samples_length and found[0]["embedding"]:
            self.predictions.use_type(self._with_length(len(found[0]["embedding"])))
        return list(found), usage_of(response)

    async def _predict_one(
        self, body: Members
    ) -> tuple[list[Prediction | RecordError], TokenUsage]:
        task = self._request.task
        if task in {"Rerank", "Score"}:
            documents = len(body[DOCUMENTS[task]]) if task == "Rerank" else 1
            scores, response = await self._post(
                body, partial(answers.scores_of, documents=documents)
            )
            return [{"scores": scores} if task == "Rerank" else {"score": scores[0]}], usage_of(
                response
            )
        reply = await ask(
            self._reply_to,
            body,
            validation=self._validation,
            retries=self._request.response_retries,
        )
        return [self._prediction_of(reply)], reply.usage

    async def _reply_to(self, body: Members) -> Reply:
        read = partial(answers.text_of, self._request.task, limit=body.get("max_output_tokens"))
        answer, response = await self._post(body, read)
        return Reply(answer, response, usage_of(response))

    def _prediction_of(self, reply: Reply) -> Prediction | RecordError:
        if reply.fault:
            tries = f"asked {reply.asked} times" if reply.asked > 1 else "asked once"
            text = f"the answer does not follow request.responseSchema: {reply.fault}, {tries}"
            return RecordError("invalid_answer", text)
        answer = reply.answer
        values = {
            "text": answer.text,
            "finish_reason": answer.finish_reason,
            "logprobs": answer.logprobs,
            "tool_calls": answer.tool_calls,
            "prompt_tokens": reply.usage.prompt_tokens,
            "completion_tokens": reply.usage.completion_tokens,
            **(reply.value or {}),
        }
        for name, parts in self._outputs:
            found = at_pointer(reply.response, parts)
            values[name] = None if found is MISSING else found
        if (
            answer.text is None
            and not answer.tool_calls
            and all(values[name] is None for name, _ in self._outputs)
        ):
            why = (
                "the model refused"
                if answer.refusal
                else f"it is empty, with finish_reason {answer.finish_reason}"
            )
            return RecordError("invalid_answer", f"the answer has no text: {why}")
        return {name: values.get(name) for name in self.predictions.members}

    async def _post(
        self, body: Members, read: Callable[[dict[str, Any]], T]
    ) -> tuple[T, dict[str, Any]]:  # Any: foreign JSON
        """Send one request, and return what is read of the response, and the response. Raises
        Fault."""
        path = self._bodies.path
        response = await self._server.post(path, encoded(body), in_place=self.nothing)
        try:
            value = load_response(response.body)
            return read(value), value
        except ValueError as error:
            why = f"not valid: {error}" if isinstance(error, InvalidAnswer) else str(error)
            raise self._server.invalid(path, response, why) from error

    def _with_length(self, length: int) -> "pyarrow.DataType":
        import pyarrow  # noqa: PLC0415  only typed results pay for its import

        return pyarrow.struct([("embedding", pyarrow.list_(pyarrow.float32(), length))])


def _of_length(prediction: Prediction, wanted: int) -> Prediction | RecordError:
    """Return the prediction, or an error if its embedding has another length than the request asks
    for."""
    vector = prediction["embedding"]
    if vector is None or len(vector) == wanted:
        return prediction
    text = f"the embedding has {len(vector)} numbers instead of dimensions {wanted}: the server ignores it"
    return RecordError(INVALID_PREDICTION, text)


def prompt_model(
    model: Model, request: Request, server: RequestServer, context: ModelContext
) -> PromptModel:
    """Compile the request of a contract. Raises ContractError with the field."""
    check_request(request, protocol="openai")
    templates = templates_of(context)
    system = mounted_system(context) if request.system_from else request.system
    bodies = Bodies(request, templates, model=model.model_name, system=system)
    return PromptModel(request, server, bodies, templates=templates, limits=context.limits)
