"""The command `inferrun`: first aid for people who run the product or use it.

`main` parses the command line and starts nothing else. What a command needs beyond the plain package is imported only
when it runs, so that a missing extra is one clear line. No mistake of a person ends in a traceback.
"""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

USAGE_ERROR = 2

DOCTOR = """\
Looks at an installation and says what is wrong with it, each problem with its cure. It changes nothing.

It checks the two resource definitions, the rights that you and the two programs have, the Deployments of shim and
worker and their settings, and Temporal: whether it answers, its namespace, its search attributes, and whether workers
of this installation poll its task queues.

The cluster is found as kubectl finds it: --kubeconfig, else KUBECONFIG, else ~/.kube/config; its current context or the
one of --context. Temporal is found as every Temporal client finds it (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE,
TEMPORAL_API_KEY, Temporal's own configuration file), else as the installation in the cluster names it."""

DOCTOR_EXIT_CODES = "exit codes: 0 nothing is wrong, 1 something is, 2 the command line or the kubeconfig is wrong"


def parser() -> argparse.ArgumentParser:
    """The command line."""
    root = argparse.ArgumentParser(
        prog="inferrun", description="Batch inference on Kubernetes, durable through Temporal"
    )
    root.add_argument("--version", action="version", version=f"inferrun {version('inferrun')}")
    commands = root.add_subparsers(dest="command", required=True, metavar="COMMAND")
    doctor = commands.add_parser(
        "doctor",
        help="look at an installation and say what is wrong with it, with the cure",
        description=DOCTOR,
        epilog=DOCTOR_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doctor.add_argument("--kubeconfig", metavar="FILE", help="the kubeconfig; default: as kubectl")
    doctor.add_argument("--context", metavar="NAME", help="the context in it; default: its current one")
    doctor.add_argument(
        "--install-namespace", metavar="NAME", default="inferrun-system", help="where it is installed (%(default)s)"
    )
    doctor.add_argument("--release", metavar="NAME", default="inferrun", help="the Helm release (%(default)s)")
    doctor.add_argument(
        "-n", "--namespace", metavar="NAME", default="default", help="where you want to start runs (%(default)s)"
    )
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code."""
    words = parser().parse_args(arguments)
    try:
        # An extra of the package may be missing; then the command cannot run, but its help can be read.
        from inferrun.cli.doctor import Question, run  # noqa: PLC0415
    except ModuleNotFoundError as error:
        text = f"this command needs more than the plain package ({error.name} is missing)"
        sys.stderr.write(f"error: {text}\ncure:  pip install 'inferrun[cli]', or '.[cli]' in a checkout\n")
        return USAGE_ERROR
    question = Question(
        kubeconfig=Path(words.kubeconfig) if words.kubeconfig else None,
        context=words.context,
        install_namespace=words.install_namespace,
        release=words.release,
        namespace=words.namespace,
    )
    try:
        return run(question)
    except KeyboardInterrupt:
        return 130
