"""`python3 -m tools.devcluster COMMAND`: the edge of this tooling; a Problem becomes lines for a person and exit code 1."""

import argparse
import sys
from pathlib import Path

from . import archives, cluster, docker, environment, images, packages, volumes
from .layout import CHECKOUT
from .narration import complain
from .problem import Problem
from .stages import run_stages


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="devcluster", description="A Kubernetes node and a Temporal server on this machine"
    )
    commands = root.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="make or repair the cluster")
    commands.add_parser("down", help="end the cluster and remove its data")
    commands.add_parser("status", help="say which parts run")
    commands.add_parser("volumes", help="make free volumes for claims of class inferrun-local")
    stop = commands.add_parser("stop", help="end one part, for a fault test")
    stop.add_argument("part")
    stop.add_argument("--kill", action="store_true", help="with SIGKILL")
    start = commands.add_parser("start", help="start one part again")
    start.add_argument("part")
    load = commands.add_parser("load", help="bring an image archive onto the node")
    load.add_argument("archive", type=Path)
    commands.add_parser("images", help="build the product's images and bring them onto the node")
    image = commands.add_parser("image", help="build an image from a folder and bring it onto the node")
    image.add_argument("name")
    image.add_argument("folder", type=Path)
    image.add_argument("--dockerfile", type=Path, help="default: the folder's Dockerfile")
    engine = commands.add_parser("docker", help="have a Docker engine until standard input ends")
    engine.add_argument("--image", nargs=2, metavar=("NAME", "FOLDER"), action="append", default=[])
    commands.add_parser("test-packages", help="install the Debian packages that only tests need")
    commands.add_parser("venv", help="make the checkout's .venv what the locks say")
    stages = commands.add_parser("stages", help="run make targets until one fails")
    stages.add_argument("names", nargs="+")
    return root


def act(words: argparse.Namespace) -> int:  # noqa: PLR0912 -- one line for each command
    match words.command:
        case "up":
            cluster.up()
        case "down":
            cluster.down()
        case "status":
            return 0 if cluster.status() else 1
        case "volumes":
            volumes.top_up()
        case "stop":
            cluster.stop_part(words.part, by_force=words.kill)
        case "start":
            cluster.start_part(cluster.part_named(words.part))
        case "load":
            archives.load(words.archive)
        case "images":
            images.build_project()
        case "image":
            folder = words.folder.resolve()
            images.build(images.Image(words.name, folder, words.dockerfile or folder / "Dockerfile"))
        case "docker":
            folders = [(name, Path(folder).resolve()) for name, folder in words.image]
            docker.hold([images.Image(name, folder, folder / "Dockerfile") for name, folder in folders])
        case "test-packages":
            packages.install_missing(packages.FOR_TESTS)
        case "venv":
            environment.make()
        case "stages":
            return run_stages(words.names, checkout=CHECKOUT)
    return 0


def main() -> int:
    try:
        return act(parser().parse_args())
    except Problem as problem:
        if problem.detail:
            complain(problem.detail)
        complain(f"error: {problem.what}")
        complain(f"cure:  {problem.cure}")
        return 1
    except OSError as error:
        complain(f"error: {error}")
        complain("cure:  a permission: sudo; no space: df -h")
        return 1
    except KeyboardInterrupt:
        complain("interrupted; start it again and it goes on where it was")
        return 130


if __name__ == "__main__":
    sys.exit(main())
