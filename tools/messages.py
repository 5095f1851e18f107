"""Generates the classes of the messages of V2 over gRPC from their definition, or compares them
with `--check`."""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from grpc_tools import protoc

from tools.devcluster.layout import CHECKOUT

SOURCE = Path("inferrun_runner/protocols/v2/inference.proto")
COMMAND = "python -m tools.messages"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write or compare; returns the exit code."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a file is out of date"
    )
    is_check = parser.parse_args(arguments).check
    with tempfile.TemporaryDirectory() as scratch:
        options = [f"--proto_path={CHECKOUT}", f"--python_out={scratch}", f"--pyi_out={scratch}"]
        if protoc.main(["protoc", *options, str(CHECKOUT / SOURCE)]) != 0:
            return 1
        made = {path.name: path.read_text() for path in (Path(scratch) / SOURCE.parent).iterdir()}
    places = {CHECKOUT / SOURCE.parent / name: text for name, text in made.items()}
    stale = [path for path, text in places.items() if not path.exists() or path.read_text() != text]
    for path in stale:
        if is_check:
            sys.stderr.write(f"{path.name} is out of date; run: {COMMAND}\n")
        else:
            path.write_text(places[path])
    return 1 if is_check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
