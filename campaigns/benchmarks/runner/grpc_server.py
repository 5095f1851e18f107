"""A model server of V2 over gRPC with values as bytes, beside `campaigns.benchmarks.runner.server`.

One worker handles `--capacity` records per second. All requests have `--rows` rows.
"""

import argparse
import asyncio

import grpc
import grpc.aio
import uvloop

from campaigns.benchmarks.runner.grpc_messages import INFER, METADATA, metadata, response
from campaigns.benchmarks.runner.server import Seen, report_until_closed


class Handlers(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpc is not typed
    """The two calls that a client needs."""

    def __init__(self, seen: Seen, *, rows: int) -> None:
        self._seen = seen
        self._rows = rows
        self._answer = response(rows)

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler | None:
        """The handler of a call, with messages as bytes."""
        handlers = {INFER: self._infer, METADATA: self._describe}
        handler = handlers.get(handler_call_details.method)
        return grpc.unary_unary_rpc_method_handler(handler) if handler else None

    async def _describe(self, _request: bytes, _context: object) -> bytes:
        return metadata()

    async def _infer(self, _request: bytes, _context: object) -> bytes:
        loop = asyncio.get_running_loop()
        self._seen.arrive(self._rows)
        await asyncio.sleep(self._seen.completion_of(self._rows, now=loop.time()) - loop.time())
        self._seen.left()
        return self._answer


async def serve(seen: Seen, *, rows: int) -> None:
    """Serve until standard input is closed."""
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
    server.add_generic_rpc_handlers((Handlers(seen, rows=rows),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    await report_until_closed(seen, port=port)
    await server.stop(None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--capacity", type=float, required=True)
    parser.add_argument("--rows", type=int, required=True)
    given = parser.parse_args()
    uvloop.run(serve(Seen(capacity=given.capacity), rows=given.rows))
