"""The command `inferrun`: diagnosis and small tasks for operators and users.

`main` only parses the command line. The module of a command is imported when it runs, so that a missing extra is
reported in one line and `--help` always works. A user error never ends in a traceback.
"""

import argparse
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from inferrun.names import LABEL_LIMIT, LABEL_PATTERN, is_subdomain

USAGE_ERROR = 2
INTERRUPTED = 130

DOCTOR = """\
Diagnoses an installation and reports each problem with its fix. Changes nothing.

Checks the two custom resource definitions, your permissions and those of shim and worker, the Deployments and settings of
shim and worker, and Temporal: its address, namespace and search attributes, and the workers that poll its task queues.

The cluster is selected as in kubectl: by --kubeconfig, KUBECONFIG or ~/.kube/config, and by --context or the current
context. Temporal is selected as in every Temporal client (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY, or
Temporal's configuration file), otherwise the server that the installation uses."""

COPY_SECRET = """\
Copies the data and the type of a Secret to another namespace, with your own permissions. The copy has no labels or
annotations of the original. Values are never printed. An existing Secret is not overwritten."""

MIGRATE = """\
Takes over the runs and schedules of the earlier Go controller (kserve-controller), with your own permissions: records the
outcomes of its runs, moves schedules from CronJobs to Temporal, and removes its finalizers. It never executes a run again
and never ends a Job that runs. It can be interrupted and repeated."""


def parser() -> argparse.ArgumentParser:
    """The command line."""
    root = argparse.ArgumentParser(prog="inferrun", description="Durable batch inference on Kubernetes")
    root.add_argument("--version", action="version", version=f"inferrun {version('inferrun')}")
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, summary: str, *, description: str, codes: str) -> argparse.ArgumentParser:
        command = commands.add_parser(
            name,
            help=summary,
            description=description,
            epilog=f"exit codes: {codes}, 2 invalid command line or kubeconfig",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.set_defaults(module=f"inferrun.cli.{name.replace('-', '_')}")
        command.add_argument("--kubeconfig", metavar="FILE", type=Path, help="kubeconfig (default: as in kubectl)")
        command.add_argument("--context", metavar="NAME", help="context in the kubeconfig (default: the current one)")
        return command

    doctor = add("doctor", "diagnose an installation", description=DOCTOR, codes="0 no problems, 1 problems found")
    doctor.add_argument(
        "--install-namespace",
        metavar="NAMESPACE",
        default="inferrun-system",
        help="namespace of the installation (default: %(default)s)",
    )
    doctor.add_argument("--release", metavar="NAME", default="inferrun", help="Helm release (default: %(default)s)")
    doctor.add_argument(
        "-n",
        "--namespace",
        metavar="NAMESPACE",
        default="default",
        help="namespace in which you want to start runs (default: %(default)s)",
    )

    copy_secret = add(
        "copy-secret", "copy a Secret to another namespace", description=COPY_SECRET, codes="0 copied, 1 not copied"
    )
    copy_secret.add_argument("name", metavar="NAME", type=_object_name, help="name of the Secret")
    for option, dest, text in (("--from", "source", "of the Secret"), ("--to", "target", "of the copy")):
        copy_secret.add_argument(
            option, dest=dest, metavar="NAMESPACE", type=_namespace, required=True, help=f"namespace {text}"
        )

    migrate = add(
        "migrate",
        "take over from the earlier Go controller",
        description=MIGRATE,
        codes="0 nothing left or dry run, 1 something left or failed",
    )
    modes = migrate.add_mutually_exclusive_group(required=True)
    modes.add_argument("--dry-run", action="store_true", help="print what would be done, and change nothing")
    modes.add_argument("--apply", action="store_true", help="do it")
    migrate.add_argument("--wait", action="store_true", help="with --apply: wait for the Jobs that are running")
    migrate.add_argument(
        "-n", "--namespace", metavar="NAMESPACE", type=_namespace, help="only this namespace (default: all)"
    )
    return root


def _object_name(text: str) -> str:
    if not is_subdomain(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid name of a Kubernetes object")
    return text


def _namespace(text: str) -> str:
    if len(text) > LABEL_LIMIT or not re.fullmatch(LABEL_PATTERN, text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid namespace")
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code."""
    words = parser().parse_args(arguments)
    try:
        code: int = import_module(words.module).run(words)
    except ModuleNotFoundError as error:
        text = f"this command requires optional dependencies ({error.name} is not installed)"
        sys.stderr.write(f"error: {text}\nfix:   pip install 'inferrun[cli]', or '.[cli]' in a checkout\n")
        return USAGE_ERROR
    except KeyboardInterrupt:
        return INTERRUPTED
    return code
