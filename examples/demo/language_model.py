"""Scene 7: a file for OpenAI's Batch API, from S3 to S3, through a language model; the Pod is
killed midway."""

from __future__ import annotations

import json
import re

from examples.demo import pods, runs
from examples.demo.terminal import DemoFailed, Terminal

TITLE = "A batch of requests to a language model"
STORY = """
An input file of OpenAI's Batch API in an S3 bucket: 900 chat completions and embeddings, one of which is invalid. llama.cpp's
server answers them (the model is tiny and its weights are random, so its answers are noise). The Pod is killed midway; what is
committed is not requested again. The output and error files have OpenAI's format.
"""
RUN = "llm-batch"
REQUESTS = 900
INVALID = REQUESTS // 2
INPUT = "s3://records/in/batch.jsonl"
MAKE_BATCH = f".venv/bin/python examples/llm-batch/make_batch.py {REQUESTS}"
S3CMD = f"kubectl exec -i -n {runs.NAMESPACE} deploy/s3 -- s3cmd"
METRICS = f"kubectl get --raw /api/v1/namespaces/{runs.NAMESPACE}/services/llm:8000/proxy/metrics"
REPEATED_AT_MOST = 0.25
"""Of all tokens. A chunk is a 20th of this input, and a few are in progress; starting again would
repeat at least a third."""


def play(terminal: Terminal) -> None:
    terminal.run(f"{MAKE_BATCH} | sed -n '1p;10p;{INVALID + 1}p'")
    terminal.run(f"{MAKE_BATCH} | {S3CMD} put --quiet - {INPUT}")
    before = _tokens_of_server(terminal)
    terminal.run("kubectl apply -f examples/llm-batch/config.yaml -f examples/llm-batch/run.yaml")
    pods.wait_until_predicted(terminal, RUN, records=REQUESTS // 3)
    pods.kill(terminal, pods.of_run(terminal, RUN))

    done = runs.wait_for_success(terminal, RUN, timeout=180)
    terminal.run(f"kubectl get inferencerun {RUN} -n {runs.NAMESPACE} -o wide")
    terminal.run(
        f"kubectl get inferencerun {RUN} -n {runs.NAMESPACE} -o jsonpath='{{.status.usage}} {{.status.message}}{{\"\\n\"}}'"
    )
    folder = done["output"]["location"]
    terminal.run(f"{S3CMD} ls {folder}/")
    terminal.run(f"{_get(f'{folder}/predictions/')} | sed -n 2p | cut -c 1-600")
    terminal.run(_get(f"{folder}/errors/"))
    _check(terminal, done, folder=folder, generated=_tokens_of_server(terminal) - before)


def _get(location: str) -> str:
    """The command that prints all objects of a folder, in order of their names."""
    return f"{S3CMD} get --quiet --recursive {location} -"


def _tokens_of_server(terminal: Terminal) -> int:
    """The tokens that the server has generated since it started, according to its metrics."""
    found = re.search(
        r"^llamacpp:tokens_predicted_total (\d+)", terminal.read(METRICS), re.MULTILINE
    )
    if not found:
        raise DemoFailed("the language model's metrics have no llamacpp:tokens_predicted_total")
    return int(found[1])


def _check(terminal: Terminal, done: runs.Object, *, folder: str, generated: int) -> None:
    requests = _lines(terminal, MAKE_BATCH)
    ids = [request["custom_id"] for request in requests]
    invalid = ids.pop(INVALID)
    stored = terminal.read(f"{S3CMD} get --quiet {INPUT} -")
    terminal.check(
        [json.loads(line) for line in stored.splitlines()] == requests,
        "the input file was not modified",
    )
    launches = len(done.get("attempts", ()))
    terminal.check(launches >= 2, f"{launches} launches: the killed one was listed")
    terminal.check(
        done["records"] == {"total": REQUESTS, "completed": REQUESTS - 1, "failed": 1},
        f"the status counts {REQUESTS - 1} responses and one error",
        found=str(done["records"]),
    )
    responses = _lines(terminal, _get(f"{folder}/predictions/"))
    terminal.check(
        [response["custom_id"] for response in responses] == ids,
        "the output file has the response to each other request once, in the order of the input",
        found=f"{len(responses)} lines",
    )
    errors = _lines(terminal, _get(f"{folder}/errors/"))
    terminal.check(
        [(error["custom_id"], error["response"]["status_code"]) for error in errors]
        == [(invalid, 400)],
        f"the error file has {invalid}, with the server's own message",
        found=str(errors)[:500],
    )
    usage = done["usage"]
    terminal.check(
        usage == _sum_of_usages(responses),
        f"status.usage is the sum of all responses: {usage['totalTokens']} tokens",
    )
    repeated = generated - usage["completionTokens"]
    terminal.check(
        repeated <= REPEATED_AT_MOST * usage["completionTokens"],
        f"the server generated {generated} tokens: the killed Pod cost {max(repeated, 0)} of them, those of uncommitted chunks",
        found=f"{repeated} more than in the output",
    )


def _sum_of_usages(responses: list[runs.Object]) -> dict[str, int]:
    usages = [response["response"]["body"]["usage"] for response in responses]
    fields = {
        "promptTokens": "prompt_tokens",
        "completionTokens": "completion_tokens",
        "totalTokens": "total_tokens",
    }
    return {name: sum(usage.get(field, 0) for usage in usages) for name, field in fields.items()}


def _lines(terminal: Terminal, command: str) -> list[runs.Object]:
    return [json.loads(line) for line in terminal.read(command).splitlines()]
