"""Writes the CRDs to the chart, and the configuration for kustomize; with ``--check`` reports which
files are out of date.

``python -m deploy.crds.generate [--check]``, from any directory. Exit code 1: a file is out of
date.
"""

import argparse
import sys
from pathlib import Path
from typing import Final

import yaml

from deploy.crds.definitions import inference_config, inference_run
from deploy.crds.kustomize import name_references
from deploy.crds.schema import Schema

DEPLOY: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = DEPLOY / "helm" / "inferrun" / "definitions"
"""A template of the chart has them: Helm would never upgrade those in a folder named crds."""

KUSTOMIZE: Final = DEPLOY / "gitops" / "kustomize-references.yaml"
HEADER: Final = (
    "# Generated from inferrun/resources by `python -m deploy.crds.generate`; not edited by hand.\n"
)


class _NoAliases(yaml.SafeDumper):
    """Writes repeated values in full instead of using YAML anchors."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 -- the base class's signature
        return True


def rendered(definition: Schema) -> str:
    """The YAML text of a definition."""
    return HEADER + yaml.dump(
        definition, Dumper=_NoAliases, sort_keys=False, allow_unicode=True, width=118
    )


def expected_files() -> dict[Path, str]:
    """The text of every generated file."""
    definitions = (inference_config(), inference_run())
    files = {
        FOLDER
        / f"{definition['spec']['group']}_{definition['spec']['names']['plural']}.yaml": rendered(
            definition
        )
        for definition in definitions
    }
    return {**files, KUSTOMIZE: rendered(name_references())}


def main(arguments: list[str] | None = None) -> int:
    """Write or compare the files; returns the exit code."""
    parser = argparse.ArgumentParser(description="Generate the CRDs from the models.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a file is out of date"
    )
    only_check = parser.parse_args(arguments).check
    stale = [
        path
        for path, text in expected_files().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale:
        name = path.relative_to(DEPLOY.parent)
        if only_check:
            print(f"{name} is out of date; run: python -m deploy.crds.generate", file=sys.stderr)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(expected_files()[path], encoding="utf-8")
            print(f"wrote {name}")
    return 1 if only_check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
