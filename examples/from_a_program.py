"""Starts an inference run from a program, follows it and prints its result, with nothing but the plain Temporal client.

    pip install temporalio
    python from_a_program.py --id iris-2026-11-21

The id is the caller's choice, and the same id is the same run: started twice, the program finds its run again. Ctrl-C
cancels the run. Address, namespace, API key and TLS come from the environment (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, …)
or Temporal's own configuration file.
"""

import argparse
import asyncio
import contextlib
import json
import os
import sys

from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.envconfig import ClientConfig
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

TASK_QUEUE = "inferrun"
LOOK_SECONDS = 2

REQUEST = {
    "namespace": "kserve-test",
    "configRef": "iris",
    "parameters": {"input_table_name": "iris", "output_table_name": "iris_predictions"},
    "timeoutSeconds": 300,
}


async def main(workflow_id: str, request: dict[str, object]) -> int:
    client = await Client.connect(**ClientConfig.load_client_connect_config())
    handle = await client.start_workflow(
        "SubmitInferenceRun",
        request,
        id=workflow_id,
        task_queue=TASK_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
    )
    print(f"started workflow {handle.id}")
    ended = asyncio.Event()
    following = asyncio.create_task(follow(handle, ended))
    try:
        result = await handle.result()
    except WorkflowFailureError as failure:
        return tell_failure(failure)
    except RPCError as error:
        print(f"Temporal is out of reach ({error.message}); the same id finds the run again", file=sys.stderr)
        return 1
    except asyncio.CancelledError:
        await handle.cancel()
        print("asked for the run's end")
        raise
    finally:
        ended.set()
        await following
    print(json.dumps(result, indent=2))
    return 0


async def follow(handle: WorkflowHandle, ended: asyncio.Event) -> None:
    """Print what the workflow says of itself (as the Temporal UI shows it), whenever it says something new."""
    told = ""
    while not ended.is_set():
        try:
            metadata = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
            details = metadata.current_details
        except RPCError:
            details = told
        if details and details != told:
            print(f"  {details.splitlines()[0]}")
            told = details
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(ended.wait(), LOOK_SECONDS)


def tell_failure(failure: WorkflowFailureError) -> int:
    """The failure's type is the run's reason; its details are the same object that a success returns."""
    cause = failure.cause
    if isinstance(cause, ApplicationError):
        print(f"failed, reason {cause.type}: {cause.message}", file=sys.stderr)
        for details in cause.details:
            print(json.dumps(details, indent=2), file=sys.stderr)
    else:
        print(f"ended without a result: {cause}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Start an inference run through Temporal and wait for its result.")
    parser.add_argument("--id", required=True, help="the workflow's id; the same id is the same run")
    parser.add_argument("--request", default=json.dumps(REQUEST), help="the request as JSON, if not the built-in one")
    arguments = parser.parse_args()
    try:
        code = asyncio.run(main(arguments.id, json.loads(arguments.request)))
    except KeyboardInterrupt:
        code = 130
    sys.stdout.flush()
    os._exit(code)  # the client's threads may crash an interpreter that winds down: temporalio/sdk-python#300
