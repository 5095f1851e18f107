"""A data handler: an HTTP service between runs and a database, compatible with those that Krateo's
users run.

    POST /compute/sklearninput    return the rows of a table
    POST /compute/sklearnoutput   store predictions in a table
    GET  /healthz                 200 while the process is running
    GET  /readyz                  200 while the database responds

Both POST requests require the bearer token from the endpoint's Secret. Configuration: the
environment variable HANDLER_TOKEN, and libpq's variables for the database. protocol.py parses
requests; database.py executes them.
"""

from __future__ import annotations

import hmac
import json
import logging
import os

import database
import psycopg
from aiohttp import web
from aiohttp.typedefs import Handler
from protocol import BadRequest, input_request, output_request, wants_failure

MAX_REQUEST_BYTES = 64 * 1024 * 1024
TOKEN = web.AppKey("token", str)

log = logging.getLogger("data-handler")

# The real handler's response when its script fails: the script's error output, with status 200.
TRACEBACK = """Traceback (most recent call last):
  File "/tmp/notebook.py", line 41, in <module>
    main(args['table_name'])
  File "/tmp/notebook.py", line 17, in main
    cursor.execute(query)
RuntimeError: this failure was requested by the parameter fail"""


async def read_input(request: web.Request) -> web.StreamResponse:
    body = await _json_body(request)
    if wants_failure(body, of="input"):
        return web.Response(text=TRACEBACK, content_type="application/json")
    parsed = input_request(body)
    async with await database.connect() as connection:
        batches = database.rows(connection, parsed)
        # Wait for the first batch before sending the headers, so that an unknown table still
        # results in status 400.
        batch = await anext(batches, None)
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        await response.write(b'{"result": [')
        separator = b""
        while batch is not None:
            await response.write(separator + json.dumps(batch)[1:-1].encode())
            separator = b", "
            batch = await anext(batches, None)
        await response.write(b"]}")
        await response.write_eof()
    log.info("rows sent from %s", parsed.table)
    return response


async def store_output(request: web.Request) -> web.Response:
    body = await _json_body(request)
    if wants_failure(body, of="output"):
        return web.Response(text=TRACEBACK, content_type="application/json")
    parsed = output_request(body)
    async with await database.connect() as connection:
        await database.store(connection, parsed)
    log.info("%d predictions stored in %s", len(parsed.values), parsed.table)
    # Like a notebook that succeeds, the response has no content.
    return web.Response(content_type="application/json")


async def healthz(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def readyz(_: web.Request) -> web.Response:
    async with await database.connect() as connection:
        await connection.execute("select 1")
    return web.Response(text="ok")


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except BadRequest as wrong:
        return web.json_response({"error": str(wrong)}, status=400)
    except psycopg.ProgrammingError as wrong:
        # The table or column does not exist, or the role has no privileges on it.
        return web.json_response({"error": str(wrong).splitlines()[0]}, status=400)
    except psycopg.OperationalError as wrong:
        return web.json_response({"error": f"the database does not respond: {wrong}"}, status=503)


@web.middleware
async def bearer_token(request: web.Request, handler: Handler) -> web.StreamResponse:
    given = request.headers.get("Authorization", "")
    if request.method == "POST" and not hmac.compare_digest(
        given.encode(), f"Bearer {request.app[TOKEN]}".encode()
    ):
        return web.json_response({"error": "the bearer token is missing or wrong"}, status=401)
    return await handler(request)


async def _json_body(request: web.Request) -> dict[str, object]:
    try:
        body = json.loads(await request.read() or b"{}")
    except ValueError as wrong:
        raise BadRequest(f"the body is not JSON: {wrong}") from wrong
    if not isinstance(body, dict):
        raise BadRequest(f"the body: expected a JSON object, got {type(body).__name__}")
    return body


def application(*, token: str) -> web.Application:
    app = web.Application(
        middlewares=[errors_as_json, bearer_token], client_max_size=MAX_REQUEST_BYTES
    )
    app[TOKEN] = token
    app.router.add_post("/compute/sklearninput", read_input)
    app.router.add_post("/compute/sklearnoutput", store_output)
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    return app


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    host, port = (
        os.environ.get("HANDLER_HOST", "0.0.0.0"),  # noqa: S104 - a Pod
        int(os.environ.get("HANDLER_PORT", "8080")),
    )
    web.run_app(
        application(token=os.environ["HANDLER_TOKEN"]),
        host=host,
        port=port,
        access_log=None,
        print=None,
    )


if __name__ == "__main__":
    main()
