"""`python3 -m tools.devcluster COMMAND`: the command line. A DevClusterError becomes a message on
stderr and exit code 1."""

import argparse
import sys
from pathlib import Path

from . import (
    archives,
    binaries,
    cluster,
    docker,
    images,
    packages,
    servers_for_tests,
    venv,
    volumes,
)
from .console import error as print_error
from .console import info
from .errors import DevClusterError
from .layout import CHECKOUT
from .stages import run_stages
from .startup import start_component


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        prog="devcluster", description="A Kubernetes node and a Temporal server on this machine"
    )
    commands = root.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="create or repair the cluster")
    up.add_argument(
        "--images",
        choices=images.IMAGE_SETS,
        action="append",
        default=[],
        help="also build and load images",
    )
    commands.add_parser("down", help="delete the cluster and its data")
    commands.add_parser("status", help="show the state of each component")
    commands.add_parser("volumes", help="create free volumes for claims of class inferrun-local")
    stop = commands.add_parser("stop", help="stop one component, for a fault test")
    stop.add_argument("component")
    stop.add_argument("--kill", action="store_true", help="use SIGKILL")
    start = commands.add_parser("start", help="start one component")
    start.add_argument("component")
    load = commands.add_parser("load", help="load an image archive into the cluster")
    load.add_argument("archive", type=Path)
    image_sets = commands.add_parser("images", help="build images and load them into the cluster")
    image_sets.add_argument(
        "sets", nargs="*", metavar="SET", help=f"{', '.join(images.IMAGE_SETS)} (default: product)"
    )
    image = commands.add_parser(
        "image", help="build an image from a directory and load it into the cluster"
    )
    image.add_argument("name")
    image.add_argument("folder", type=Path)
    image.add_argument("--dockerfile", type=Path, help="default: the directory's Dockerfile")
    image_id = commands.add_parser(
        "image-id", help="print the id of an image; nothing if it has not been built"
    )
    image_id.add_argument("name")
    engine = commands.add_parser(
        "docker", help="provide a Docker engine until standard input is closed"
    )
    engine.add_argument("--image", nargs=2, metavar=("NAME", "FOLDER"), action="append", default=[])
    commands.add_parser(
        "test-servers", help="install the S3 server and the model server that only tests need"
    )
    commands.add_parser(
        "kserve", help="compile KServe's controllers, which only the interoperability tests need"
    )
    commands.add_parser("kueue", help="compile Kueue, which only the interoperability tests need")
    commands.add_parser("test-packages", help="install the Debian packages that only tests need")
    commands.add_parser("venv", help="make the checkout's .venv match the lock files")
    stages = commands.add_parser("stages", help="run make targets until one fails")
    stages.add_argument("names", nargs="+")
    return root


def execute(arguments: argparse.Namespace) -> int:  # noqa: PLR0912 -- one case per command
    match arguments.command:
        case "up":
            cluster.up(required_images=_images_of(arguments.images))
        case "down":
            cluster.down()
        case "status":
            return 0 if cluster.status() else 1
        case "volumes":
            volumes.top_up()
        case "stop":
            cluster.stop_component(arguments.component, force=arguments.kill)
        case "start":
            start_component(cluster.component_named(arguments.component))
        case "load":
            archives.load(arguments.archive)
        case "images":
            images.load_all(_images_of(arguments.sets or ["product"]))
        case "image":
            folder = arguments.folder.resolve()
            images.build_and_load(
                images.Image(arguments.name, folder, arguments.dockerfile or folder / "Dockerfile")
            )
        case "image-id":
            info(images.current_id(arguments.name))
        case "docker":
            folders = [(name, Path(folder).resolve()) for name, folder in arguments.image]
            docker.serve(
                [images.Image(name, folder, folder / "Dockerfile") for name, folder in folders]
            )
        case "test-servers":
            servers_for_tests.provide()
        case "kserve":
            binaries.build_missing(modules=(binaries.KSERVE,))
        case "kueue":
            binaries.build_missing(modules=(binaries.KUEUE,))
        case "test-packages":
            packages.install_missing(packages.REQUIRED_FOR_TESTS)
        case "venv":
            venv.create()
        case "stages":
            return run_stages(arguments.names, checkout=CHECKOUT)
    return 0


def _images_of(sets: list[str]) -> list[images.Image]:
    unknown = [name for name in sets if name not in images.IMAGE_SETS]
    if unknown:
        raise DevClusterError(
            f"unknown image set {unknown[0]}", fix=f"use one of: {', '.join(images.IMAGE_SETS)}"
        )
    return [image for name in sets for image in images.IMAGE_SETS[name]]


def main() -> int:
    try:
        return execute(parser().parse_args())
    except DevClusterError as failure:
        if failure.detail:
            print_error(failure.detail)
        print_error(f"error: {failure.message}")
        print_error(f"fix:   {failure.fix}")
        return 1
    except OSError as failure:
        print_error(f"error: {failure}")
        print_error("fix:   if permission was denied, use sudo; if the disk is full, see df -h")
        return 1
    except KeyboardInterrupt:
        print_error("interrupted; run the same command again to continue")
        return 130


if __name__ == "__main__":
    sys.exit(main())
