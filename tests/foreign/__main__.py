"""`python -m tests.foreign [software…]`: software of others writes its files, or answers, again,
compared with those committed.

For each folder of `tests/foreign`: its own environment, its writer, what its own reader returns; or
its recorder, and the form of what the server answers. Then the tests that read the committed files
and answers read the fresh ones. One software that fails does not stop the others; the exit code is
1 if anything is wrong.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.foreign.answers import forms_in
from tests.foreign.environments import provide
from tests.foreign.recording import PYTHON
from tests.foreign.software import EXPECTED, FRESH, HERE, MADE, Software, all_software, readings_in
from tools.devcluster.commands import run
from tools.devcluster.errors import DevClusterError

WRITE_SECONDS: Final = 900.0
_HEAD: Final = ("software", "version", "files", "right", "wrong")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one software; `wrong` has the files that it now reads differently, `error` why
    it wrote none."""

    right: int = 0
    wrong: tuple[str, ...] = ()
    error: str = ""


def main() -> int:
    """Run the writers, print a table, and run the tests with the fresh files."""
    known = {one.name: one for one in all_software()}
    parser = argparse.ArgumentParser(
        prog="python -m tests.foreign", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("software", nargs="*", help=f"of {', '.join(known)}; default: all")
    parser.add_argument("--list", action="store_true", help="only print what there is")
    parser.add_argument("--keep", action="store_true", help="keep the fresh files")
    parser.add_argument(
        "--update", action="store_true", help="replace the committed files by the fresh ones"
    )
    given = parser.parse_args()
    if unknown := set(given.software) - set(known):
        parser.error(
            f"no such software: {', '.join(sorted(unknown))}; there are {', '.join(known)}"
        )
    chosen = [known[name] for name in given.software] or list(known.values())
    if given.list:
        _say(*(_cells(one.name, one.version) for one in chosen))
        return 0
    fresh = Path(tempfile.mkdtemp(prefix="foreign-"))
    _say(_cells(*_HEAD), _cells(*("---" for _ in _HEAD)))
    outcomes = list[Outcome]()
    for one in chosen:
        outcomes.append(outcome := _rewritten(one, fresh / one.name))
        count = outcome.right + len(outcome.wrong)
        _say(
            _cells(
                one.name,
                one.version,
                count,
                outcome.right,
                outcome.error or "; ".join(outcome.wrong) or 0,
            )
        )
        if given.update and not outcome.error:
            _replace(one.folder, fresh / one.name)
    for one in known.values():
        if not _made_in(fresh / one.name):
            shutil.rmtree(fresh / one.name, ignore_errors=True)
            (fresh / one.name).symlink_to(one.folder)
    tests = sorted(map(str, HERE.parent.glob("integration/runner/test_foreign_*.py")))
    command = [sys.executable, "-m", "pytest", "-q", *tests]
    code = subprocess.run(
        command, cwd=HERE.parents[1], env={**os.environ, FRESH: str(fresh)}, check=False
    ).returncode
    if given.keep:
        _say(f"kept {fresh}")
    else:
        shutil.rmtree(fresh)
    return 1 if code or any(one.wrong or one.error for one in outcomes) else 0


def _rewritten(software: Software, out: Path) -> Outcome:
    """Have the software make its files or answers in a folder, and compare them with what is
    committed."""
    out.mkdir()
    try:
        environment = provide(software)
        variables = {**environment.variables, PYTHON: sys.executable}
        run(
            [*environment.command, out],
            extra_env=variables,
            cwd=software.folder,
            timeout=WRITE_SECONDS,
        )
    except DevClusterError as error:
        return Outcome(error=" ".join([error.message, *error.detail.splitlines()[-1:]]))
    if not (now := _made_in(out)):
        return Outcome(error=f"it makes neither {EXPECTED} nor answers")
    before = _made_in(software.folder)
    wrong = sorted(name for name in {*now, *before} if now.get(name) != before.get(name))
    return Outcome(right=len({*now, *before}) - len(wrong), wrong=tuple(wrong))


def _made_in(folder: Path) -> Mapping[str, object]:
    """What is compared of a software, by the names of files: what it reads there, or the forms of
    its answers."""
    read = readings_in(folder) if (folder / EXPECTED).exists() else {}
    return {**read, **forms_in(folder)}


def _replace(folder: Path, fresh: Path) -> None:
    for name in MADE:
        path = folder / name
        if path.is_dir():
            shutil.rmtree(path)
        if (fresh / name).is_dir():
            shutil.copytree(fresh / name, path)
        elif (fresh / name).exists():
            shutil.copy(fresh / name, path)


def _cells(*values: object) -> str:
    return f"| {' | '.join(map(str, values))} |"


def _say(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
