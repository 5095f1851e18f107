"""Starts an inference run, shows its progress and prints its result, using only the plain Temporal
client.

    pip install temporalio
    python from_a_program.py --id iris-2026-11-21

The caller chooses the id, and the same id always denotes the same run: if the program is started
again, it attaches to the existing run. Ctrl-C cancels the run. Address, namespace, API key and TLS
are read from the environment (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, …) or from Temporal's own
configuration file.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys

from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import (
    Client,
    WorkflowFailureError,
    WorkflowHandle,
    WorkflowQueryFailedError,
    WorkflowQueryRejectedError,
)
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

POLL_SECONDS = 2

REQUEST = {
    "namespace": "kserve-test",
    "configRef": "iris",
    "parameters": {"input_table_name": "iris", "output_table_name": "iris_predictions"},
    "timeoutSeconds": 300,
}


async def main(workflow_id: str, request: dict[str, object], *, task_queue: str) -> int:
    client = await Client.connect(**ClientConfig.load_client_connect_config())
    handle = await client.start_workflow(
        "SubmitInferenceRun",
        request,
        id=workflow_id,
        task_queue=task_queue,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )
    print(f"started workflow {handle.id}")
    ended = asyncio.Event()
    following = asyncio.create_task(follow(handle, ended))
    try:
        result = await wait(handle)
    except WorkflowFailureError as failure:
        return print_failure(failure)
    except RPCError as error:
        print(
            f"cannot reach Temporal ({error.message}); to attach to the run again, use the same id",
            file=sys.stderr,
        )
        return 1
    except asyncio.CancelledError:
        await handle.cancel()
        print("requested cancellation")
        raise
    finally:
        ended.set()
        await following
    print(json.dumps(result, indent=2))
    return 0


async def wait(handle: WorkflowHandle) -> object:
    """The result of the workflow once it has closed, whatever pauses it in the meantime."""
    while True:
        try:
            return await handle.result()
        except RuntimeError as error:
            # While a workflow is paused, the server answers at once, without its end (temporalio
            # 1.35).
            if "No completion event found" not in str(error):
                raise
        await asyncio.sleep(POLL_SECONDS)


async def follow(handle: WorkflowHandle, ended: asyncio.Event) -> None:
    """Print the workflow's current details, which the Temporal UI also shows, whenever they
    change."""
    printed = ""
    while not ended.is_set():
        try:
            metadata = await handle.query(
                "__temporal_workflow_metadata", result_type=WorkflowMetadata
            )
            details = metadata.current_details
        except (RPCError, WorkflowQueryFailedError):  # no worker answers
            details = printed
        except (WorkflowQueryRejectedError, ValueError):
            # the latter: a status that temporalio does not know
            details = "paused in Temporal"
        if details and details != printed:
            print(f"  {details.splitlines()[0]}")
            printed = details
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), POLL_SECONDS)


def print_failure(failure: WorkflowFailureError) -> int:
    """The failure's type is the run's reason; its details are the same object that a successful run
    returns."""
    cause = failure.cause
    if isinstance(cause, ApplicationError):
        print(f"failed, reason {cause.type}: {cause.message}", file=sys.stderr)
        for details in cause.details:
            print(json.dumps(details, indent=2), file=sys.stderr)
    else:
        print(f"ended without a result: {cause}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description="Start an inference run through Temporal and wait for its result."
    )
    parser.add_argument(
        "--id", required=True, help="the workflow's id; the same id denotes the same run"
    )
    parser.add_argument(
        "--request",
        default=json.dumps(REQUEST),
        help="the request as JSON; default: a run of the config iris",
    )
    parser.add_argument("--task-queue", default="inferrun", help="the installation's task queue")
    arguments = parser.parse_args()
    try:
        code = asyncio.run(
            main(arguments.id, json.loads(arguments.request), task_queue=arguments.task_queue)
        )
    except KeyboardInterrupt:
        code = 130
    sys.stdout.flush()
    # the client's threads may crash the interpreter during shutdown: temporalio/sdk-python#300
    os._exit(code)
