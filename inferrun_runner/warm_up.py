"""`python -m inferrun_runner.warm_up`: waits until the model answers, then exits with 0; the init container
of a run's Pod.

An object of KServe that is ready may have no replica, or one that is still loading. Requests during
that time fail or hang, and the run's time would be spent on them. The probe asks the model itself,
several times in a row, because a proxy may send the first requests to one replica and the next ones
to another. It needs no credentials: a server that asks for them is awake.

What was seen is logged, so that the run's status can show it.
"""

import asyncio
import sys
import time
from typing import Final

from inferrun.backoff import Backoff
from inferrun.contract import Model
from inferrun.exitcodes import ExitCode
from inferrun.runner_report import WarmUp
from inferrun.text import one_line, public_url
from inferrun_runner.contract_file import read_contract
from inferrun_runner.network.exchanges import Refused
from inferrun_runner.program.short_program import run_short_program
from inferrun_runner.protocols.probe import open_probe
from inferrun_runner.protocols.protocol_name import candidates, protocol_of
from inferrun_runner.protocols.readiness import GRPC, probe_url
from inferrun_runner.settings import Settings

IN_A_ROW: Final = 3
PAUSES: Final = Backoff(1.0, 5.0)
"""The pauses between two probes: the first one between those that succeed."""

REPEATED_SECONDS: Final = 30.0
"""What is seen is logged when it changes, and after this time."""

SHOWN: Final = 500
"""Characters of a URL, and of the answer from there, that are logged: together they fit into the
report of a warm-up."""


class Seen:
    """Logs what the probes see."""

    def __init__(self, *, limit: float = 0) -> None:
        """`limit`: after how many seconds the program gives up, 0 for never."""
        self._limit = round(limit)
        self.last = ""
        self._at = 0.0
        self._began = time.monotonic()

    def report(self, text: str) -> None:
        """Log it if it is new, or was last logged a while ago."""
        now = time.monotonic()
        if text == self.last and now - self._at < REPEATED_SECONDS:
            return
        self.last, self._at = text, now
        line = WarmUp(seen=text, seconds=round(now - self._began), limit=self._limit)
        sys.stdout.write(line.model_dump_json() + "\n")
        sys.stdout.flush()


async def wait_until_ready(
    model: Model, settings: Settings, *, seen: Seen, pauses: Backoff = PAUSES
) -> None:
    """Return once the model was ready several times in a row. Raises Refused and RunnerError; waits
    otherwise."""
    url = model.model_url if protocol_of(model) == GRPC else probe_url(candidates(model)[0])
    count, wait = 0, pauses.first
    async with open_probe(model, settings.limits, endpoints=settings.endpoints_dir) as probe:
        while count < IN_A_ROW:
            finding = await probe()
            seen.report(
                f"{one_line(public_url(url), limit=SHOWN)}: {one_line(finding.seen, limit=SHOWN)}"
            )
            count = count + 1 if finding.is_ready else 0
            wait = pauses.first if finding.is_ready else pauses.longer(wait)
            if count < IN_A_ROW:
                await asyncio.sleep(wait)


async def _warm_up(settings: Settings) -> tuple[str, ExitCode]:
    limit = settings.warm_up_seconds
    seen = Seen(limit=limit)
    try:
        async with asyncio.timeout(limit or None):
            await wait_until_ready(read_contract(settings.contract).kserve, settings, seen=seen)
    except Refused as error:
        return str(error), ExitCode.INFERENCE
    except TimeoutError:
        last = seen.last or "no answer"
        text = (
            f"the model did not answer within {limit:g} s; see the log of its server, or raise kserve.warmUpSeconds in the "
            f"InferenceConfig; last seen: {last}"
        )
        return text, ExitCode.INFERENCE
    return "the model is ready", ExitCode.DONE


if __name__ == "__main__":
    run_short_program(_warm_up)
