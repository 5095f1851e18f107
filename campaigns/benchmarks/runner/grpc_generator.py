"""Load on a model server of V2 over gRPC with values as bytes, beside
`campaigns.benchmarks.runner.generator`."""

import asyncio
import json
import sys
import time

import grpc.aio

from campaigns.benchmarks.runner.generator import main
from campaigns.benchmarks.runner.grpc_messages import INFER, request


async def generate(port: int, *, requests: int, rows: int, connections: int) -> None:
    """Send the requests, and print what that cost."""
    message, left = request(rows), iter(range(requests))
    started = time.process_time()

    async def send() -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
            call = channel.unary_unary(INFER)
            for _ in left:
                await call(message)

    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(send())
    sys.stdout.write(json.dumps({"cpu_seconds": time.process_time() - started}) + "\n")


if __name__ == "__main__":
    main(generate)
