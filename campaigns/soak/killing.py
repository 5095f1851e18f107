"""Kills the Pods of runs until a number of kills is reached, and checks the ledger of every run
that completes.

A kill waits for a random number of requests to the model or the store, and then for a moment, so it
may hit any step, on any machine. Every run is continued by further Pods until it is committed, and
its results are compared with the records of the input.
"""

import asyncio
import random
import signal
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from campaigns.soak.ledger import ACCOUNTS, OTHERS, RECORDS, Account, differences
from tests.integration.runner.pods import Ended, Machine, Pod
from tests.integration.runner.servers import CountingModel, counting_model

SMALL = {
    "INFERRUN_CHUNK_BYTES": "1200",
    "INFERRUN_BATCH_ROWS": "20",
    "INFERRUN_RETRY_SECONDS": "30",
}
"""About thirty chunks, and as many requests."""

_LONGEST_MOMENT = 0.03
_LONGEST_WAIT = 300.0
"""Seconds within which a Pod must make progress, or end, on a machine that does much else."""
_KILLS_PER_RUN = 12
"""After so many, a run is left to complete: a data handler's runs make no progress that a kill
spares."""


@dataclass
class Tally:
    """What was done, and what was found."""

    kills: int = 0
    runs: int = 0
    pods: int = 0
    records: int = 0
    """Records in committed runs."""

    sent: int = 0
    """Records that the model received."""

    faults: list[str] = field(default_factory=list)
    seconds: float = 0.0


async def soak(label: str, folder: Path, *, kills: int, pods: int, seed: int) -> Tally:
    """Kill so many Pods of runs with this store, of which `pods` run at a time."""
    chance, tally, began = random.Random(seed), Tally(), time.monotonic()  # noqa: S311  not for secrets
    async with counting_model() as model, (ACCOUNTS | OTHERS)[label](folder) as account:
        while tally.kills < kills:
            machine = _new_run(folder, account, model)
            await _complete(machine, account, model, tally, chance, kills=kills, pods=pods)
        tally.sent = sum(model.rows.values())
    tally.seconds = time.monotonic() - began
    return tally


def _new_run(folder: Path, account: Account, model: CountingModel) -> Machine:
    uid = str(uuid.uuid4())
    kserve = {"modelName": "sum", "modelUrl": model.address, "modelInputName": "input-0"}
    contract = {"jobId": uid, "runId": uid, "jobName": f"inf-{uid}", "kserve": kserve}
    machine = Machine(folder / uid, contract=contract)
    account.prepare(machine)
    return machine


async def _complete(
    machine: Machine,
    account: Account,
    model: CountingModel,
    tally: Tally,
    chance: random.Random,
    *,
    kills: int,
    pods: int,
) -> None:
    """Execute a run to its commit, killing its Pods on the way, and check its ledger."""

    def seen() -> int:
        return len(model.requests) + account.events()

    tally.runs += 1
    most = tally.kills + min(_KILLS_PER_RUN, kills - tally.kills)
    running = [await machine.start(environment=SMALL) for _ in range(pods)]
    while True:
        at = chance.randrange(pods)
        if tally.kills < most:
            await _wait_for_moment(running[at], seen, chance)
            if running[at].process.returncode is None:
                running[at].signal(signal.SIGKILL)
        ended = await _end(running[at])
        if ended.code != -signal.SIGKILL:
            break
        tally.kills += 1
        running[at] = await machine.start(environment=SMALL)
    others = [await _end(pod) for pod in running if pod is not running[at]]
    tally.pods += machine.pods
    tally.records += RECORDS
    tally.faults += [
        f"{account.label}: {one}" for one in _faults(machine, account, [ended, *others])
    ]


async def _end(pod: Pod) -> Ended:
    async with asyncio.timeout(_LONGEST_WAIT):
        await pod.process.wait()
    return await pod.end()


async def _wait_for_moment(pod: Pod, seen: Callable[[], int], chance: random.Random) -> None:
    """Wait until the model and the store have received some more requests, or the Pod has ended,
    and then for a moment."""
    wanted = seen() + chance.choice((0, 1, 2, 3, 5, 8, 13, 40))
    async with asyncio.timeout(_LONGEST_WAIT):
        while seen() < wanted and pod.process.returncode is None:  # noqa: ASYNC110  what is waited for is other processes' doing
            await asyncio.sleep(0.002)
    await asyncio.sleep(chance.uniform(0, _LONGEST_MOMENT))


def _faults(machine: Machine, account: Account, ended: Sequence[Ended]) -> list[str]:
    failed = [
        f"a Pod ended with {one.code}: {one.message}; its log: {one.stderr[-3000:]}"
        for one in ended
        if one.code != 0
    ]
    if failed or ended[0].result.output is None:
        return failed or ["a result without an output"]
    return differences(account.entries(machine, ended[0].result.output))
