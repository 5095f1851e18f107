"""Write the software bill of materials of an image: `python -m tools.supply_chain ARCHIVE --name NAME --version V --output F`."""

import argparse
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from tools.supply_chain.bill_of_materials import cyclonedx
from tools.supply_chain.image_packages import packages_in


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 2 if the archive cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m tools.supply_chain", description=__doc__)
    parser.add_argument("archive", type=Path, help="image archive, as docker save writes it")
    parser.add_argument("--name", required=True, help="name of the image, such as inferrun/runner")
    parser.add_argument("--version", required=True, help="version of the image")
    parser.add_argument("--output", type=Path, required=True, help="file to write (CycloneDX JSON)")
    given = parser.parse_args(arguments)
    try:
        packages = packages_in(given.archive)
    except (OSError, ValueError, tarfile.TarError) as error:
        print(f"error: {given.archive}: {error}", file=sys.stderr)
        return 2
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(cyclonedx(packages, name=given.name, version=given.version), encoding="utf-8")
    print(f"{given.output}: {len(packages)} packages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
