"""`python -m runner.warm_up`: waits until the model answers, then exits with 0; the init container of a run's Pod.

An object of KServe that is ready may have no replica, or one that is still loading. Requests during that time fail or hang, and the
run's time would be spent on them. The probe asks the model itself, several times in a row, because a proxy may send the first
requests to one replica and the next ones to another. It needs no credentials: a server that asks for them is awake.

What was seen is logged, so that the run's status can show it.
"""

import asyncio
import logging
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

from inferrun.contract import Model
from inferrun.exitcodes import ExitCode
from inferrun.logs import log_as_json
from inferrun.plugins import FaultKind, RunnerError
from inferrun.runner_report import WarmUp
from inferrun.text import one_line, public_url
from runner.connections import AddressRefused
from runner.contract_file import read_contract
from runner.http1.client import HttpClient, open_client
from runner.http1.failures import ExchangeFailed, Refused, ResponseTooLarge
from runner.model_server import JSON_HEADERS
from runner.network_failures import describe_refusal
from runner.protocol_name import protocol_of
from runner.readiness import GRPC, PROBED, Finding, candidates, judge, judge_guess, probe_url
from runner.settings import Settings, read_settings
from runner.tls import client_certificate_of, context_of, root_certificates_of, trust

_log = logging.getLogger("runner.warm_up")

IN_A_ROW: Final = 3
PAUSE: Final = 1.0
"""Seconds between two probes that succeed."""

MAX_PAUSE: Final = 5.0
"""Seconds between two probes of a model that does not answer; doubled up to this."""

PROBE_SECONDS: Final = 60.0
"""Time limit of a probe. Knative holds a request until a replica runs; a replica continues to start if the request is given up."""

REPEATED_SECONDS: Final = 30.0
"""What is seen is logged when it changes, and after this time."""

SHOWN: Final = 500
"""Characters of a URL, and of what was seen there, that are logged: together they fit into the report of a warm-up."""

MAX_BODY: Final = 4 * 1024 * 1024
"""Bytes of an answer; a list of models may be long."""


class Seen:
    """Logs what the probes see."""

    def __init__(self, *, limit: float = 0) -> None:
        """`limit`: after how many seconds the program gives up, 0 for never."""
        self._limit = round(limit)
        self._last, self._at = "", 0.0
        self._began = time.monotonic()

    @property
    def last(self) -> str:
        """What was seen last."""
        return self._last

    def report(self, text: str) -> None:
        """Log it if it is new, or was last logged a while ago."""
        now = time.monotonic()
        if text == self._last and now - self._at < REPEATED_SECONDS:
            return
        self._last, self._at = text, now
        line = WarmUp(seen=text, seconds=round(now - self._began), limit=self._limit)
        sys.stdout.write(line.model_dump_json() + "\n")
        sys.stdout.flush()


async def wait_until_ready(model: Model, settings: Settings, *, seen: Seen, pause: float = PAUSE) -> None:
    """Return once the model was ready several times in a row. Raises Refused, AddressRefused and RunnerError; waits otherwise."""
    url = model.model_url if protocol_of(model) == GRPC else probe_url(candidates(model)[0])
    count, wait = 0, pause
    async with open_probe(model, settings) as probe:
        while count < IN_A_ROW:
            finding = await probe()
            seen.report(f"{one_line(public_url(url), limit=SHOWN)}: {one_line(finding.seen, limit=SHOWN)}")
            count = count + 1 if finding.is_ready else 0
            wait = pause if finding.is_ready else min(wait * 2, MAX_PAUSE)
            if count < IN_A_ROW:
                await asyncio.sleep(wait)


@asynccontextmanager
async def open_probe(model: Model, settings: Settings) -> AsyncIterator[Callable[[], Awaitable[Finding]]]:
    """A function that asks the server once."""
    if protocol_of(model) == GRPC:
        from runner.v2.grpc_probe import open_grpc_probe  # noqa: PLC0415 -- few models speak gRPC, and its import takes long

        roots = root_certificates_of(model, settings.endpoints_dir)
        certificate = client_certificate_of(settings.endpoints_dir)
        async with open_grpc_probe(
            model, settings.limits, seconds=PROBE_SECONDS, roots=roots, certificate=certificate
        ) as probe:
            yield probe
        return
    tls = context_of(model, settings.endpoints_dir)
    async with open_client(settings.limits, seconds=PROBE_SECONDS, response_bytes=MAX_BODY, tls=tls) as client:
        yield partial(_probe_all, client, candidates(model))


async def _probe_all(client: HttpClient, models: tuple[Model, ...]) -> Finding:
    """Ask as the first protocol does, and while the server does not know the path, as the others do."""
    first = finding = await _probe(client, models[0])
    for other in models[1:]:
        if finding.is_unknown_path:
            finding = await _probe(client, other, judge_answer=judge_guess)
    return finding if finding.is_ready else first


async def _probe(client: HttpClient, model: Model, *, judge_answer: Callable[..., Finding] = judge) -> Finding:
    try:
        response = await client.exchange("GET", probe_url(model), None, headers=JSON_HEADERS)
    except Refused:
        raise
    except ExchangeFailed as error:
        answers = error.was_sent and error.kind is not FaultKind.TIMEOUT
        is_other = answers and protocol_of(model) not in PROBED  # it does not speak HTTP, but it answers
        return Finding(is_ready=is_other, seen=str(error))
    except ResponseTooLarge:
        return Finding(is_ready=False, seen=f"an answer of more than {MAX_BODY} bytes")
    return judge_answer(model, status=response.status, body=response.body)


async def _warm_up(settings: Settings) -> NoReturn:
    """Exits from inside the event loop, because closing the loop would wait for its threads."""
    limit = settings.warm_up_seconds
    seen = Seen(limit=limit)
    try:
        trust(settings.ca_bundle, folder=settings.spool_dir)
        async with asyncio.timeout(limit or None):
            await wait_until_ready(read_contract(settings.contract).kserve, settings, seen=seen)
    except Refused as error:
        _exit(str(error), ExitCode.INFERENCE, settings=settings)
    except AddressRefused as error:
        _exit(describe_refusal(error), ExitCode.INFERENCE, settings=settings)
    except RunnerError as error:
        _exit(str(error), error.code, settings=settings)
    except TimeoutError:
        last = seen.last or "no answer"
        text = (
            f"the model did not answer within {limit:g} s; see the log of its server, or raise kserve.warmUpSeconds in the "
            f"InferenceConfig; last seen: {last}"
        )
        _exit(text, ExitCode.INFERENCE, settings=settings)
    _exit("the model is ready", ExitCode.DONE, settings=settings)


def _exit(message: str, code: ExitCode, *, settings: Settings) -> NoReturn:
    try:
        settings.termination_log.write_text(message, encoding="utf-8")
    except OSError as error:
        _log.warning("cannot write the termination message", extra={"error": error.strerror})
    _log.info("the warm-up ended", extra={"exit_code": int(code), "detail": message})
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> NoReturn:
    """Wait and exit."""
    log_as_json(sys.stderr)
    try:
        settings = read_settings(os.environ)
    except RunnerError as error:
        _exit(str(error), error.code, settings=Settings(termination_log=Path("/dev/termination-log")))
    asyncio.run(_warm_up(settings))
    raise AssertionError("the warm-up returned without exiting")


if __name__ == "__main__":
    main()
