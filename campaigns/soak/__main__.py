"""`python -m campaigns.soak`: kills Pods of runs with every store, and prints the ledger's account
(`--kills 1000` in total)."""

import argparse
import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from campaigns.soak.killing import Tally, soak
from campaigns.soak.ledger import ACCOUNTS, OTHERS

PAGE: Final = Path(__file__).parents[2] / "docs" / "contributing" / "soak.md"
BEGIN, END = "<!-- account -->\n", "<!-- end of account -->\n"

_HEAD = """| store | Pods at a time | kills | runs | Pods | records committed | sent more than once | minutes | faults |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
"""


def row(label: str, pods: int, tally: Tally) -> str:
    """One line of the account."""
    repeated = f"{100 * (tally.sent - tally.records) / tally.records:.0f} %"
    cells = [
        tally.kills,
        tally.runs,
        tally.pods,
        tally.records,
        repeated,
        f"{tally.seconds / 60:.1f}",
        len(tally.faults),
    ]
    return f"| `{label}` | {pods} | {' | '.join(map(str, cells))} |\n"


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


async def main() -> int:
    """Soak each store, alone and with two Pods at a time; the exit code is 1 if a ledger has a
    fault."""
    parser = argparse.ArgumentParser(
        prog="python -m campaigns.soak", description="Kill Pods of runs, and check every record."
    )
    parser.add_argument("--kills", type=int, default=1000, help="number of kills in total")
    parser.add_argument("--stores", nargs="*", default=list(ACCOUNTS), choices=[*ACCOUNTS, *OTHERS])
    parser.add_argument(
        "--pods", nargs="*", type=int, default=[1, 2], help="numbers of Pods at a time"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=None,
        help="seed of the kills; default: a new one, which is printed",
    )
    parser.add_argument("--record", action="store_true", help=f"write the account to {PAGE.name}")
    chosen = parser.parse_args()
    seed = chosen.seed if chosen.seed is not None else int.from_bytes(os.urandom(4))
    cells = [(label, pods) for label in chosen.stores for pods in chosen.pods]
    kills = -(-chosen.kills // len(cells))
    _say(f"seed {seed}, {kills} kills per store and number of Pods")
    rows, faults = "", list[str]()
    for label, pods in cells:
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            tally = await soak(label, Path(folder), kills=kills, pods=pods, seed=seed)
        rows += row(label, pods, tally)
        faults += tally.faults
        _say(row(label, pods, tally).rstrip(), *tally.faults)
    if chosen.record:
        text = PAGE.read_text()
        before, after = text.split(BEGIN)[0], text.split(END)[1]
        PAGE.write_text(f"{before}{BEGIN}\n{_HEAD}{rows}\nSeed {seed}.\n\n{END}{after}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
