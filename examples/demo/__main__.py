"""The demo: installs the product and an example application on a cluster, and plays nine scenes.

    python -m examples.demo up       install and play (`make demo`)
    python -m examples.demo scene 2  play one scene again; requires a previous `up`
    python -m examples.demo down     remove what was installed (`make demo-down`)

It requires the cluster and the images that `make demo` prepares. It can be repeated, also after an
interruption. Nothing is simulated: the commands that are shown are executed, and if a check fails,
the demo stops with exit code 1.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path
from typing import Protocol

from examples.demo import (
    crash_recovery,
    crowd,
    installation,
    language_model,
    missing_secret,
    nightly,
    runs,
    schedule,
    summary,
    temporal_client,
    typed_data,
    wrong_image,
)
from examples.demo.terminal import DemoFailed, Terminal, seconds_since

CHECKOUT = Path(__file__).resolve().parents[2]
ENVIRONMENT_FILE = CHECKOUT / ".devcluster" / "env"


class Scene(Protocol):
    """The interface of a scene's module."""

    TITLE: str
    STORY: str

    def play(self, terminal: Terminal) -> None: ...


SCENES: tuple[Scene, ...] = (
    missing_secret,
    crash_recovery,
    wrong_image,
    schedule,
    temporal_client,
    crowd,
    language_model,
    nightly,
    typed_data,
)


def cluster_environment() -> dict[str, str]:
    """This process's environment and the env file of `make cluster`; the cluster's programs come
    first on PATH."""
    if not ENVIRONMENT_FILE.exists():
        raise DemoFailed(
            "there is no cluster (.devcluster/env does not exist); run `make demo` or `make cluster` first"
        )
    assignments = shlex.split(ENVIRONMENT_FILE.read_text(), comments=True)
    values = dict(assignment.split("=", 1) for assignment in assignments)
    path = os.pathsep.join(
        [values["INFERRUN_BIN"], str(CHECKOUT / ".venv" / "bin"), os.environ["PATH"]]
    )
    return {**os.environ, **values, "PATH": path}


def play_all() -> None:
    began = time.monotonic()
    terminal = Terminal(checkout=CHECKOUT, environment=cluster_environment())
    with terminal.scene(installation.TITLE, story=installation.STORY):
        installation.install(terminal)
    for number, scene in enumerate(SCENES, start=1):
        play(number, terminal)
        if scene is crowd:
            conclude_schedule(terminal)
    summary.print_summary(terminal)
    terminal.info(f"All checks passed in {seconds_since(began)}.")


def play(number: int, terminal: Terminal) -> None:
    scene = SCENES[number - 1]
    with terminal.scene(f"Scene {number} of {len(SCENES)} · {scene.TITLE}", story=scene.STORY):
        scene.play(terminal)


def conclude_schedule(terminal: Terminal) -> None:
    number = SCENES.index(schedule) + 1
    with terminal.scene(f"Scene {number}, continued · {schedule.TITLE}", story=schedule.LATER):
        schedule.conclude(terminal)


def play_one(number: int, terminal: Terminal) -> None:
    installation.remove_runs(terminal)
    if number != 1:
        installation.apply_result_of_scene_1(terminal)
    play(number, terminal)
    if SCENES[number - 1] is schedule:
        conclude_schedule(terminal)


def main(arguments: list[str]) -> int:
    try:
        match arguments:
            case [] | ["up"]:
                play_all()
            case ["scene", number] if number in [str(place) for place in range(1, len(SCENES) + 1)]:
                play_one(
                    int(number), Terminal(checkout=CHECKOUT, environment=cluster_environment())
                )
            case ["down"]:
                installation.uninstall(
                    Terminal(checkout=CHECKOUT, environment=cluster_environment())
                )
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except DemoFailed as failure:
        print(
            f"\n✗ {failure}\n  To investigate: kubectl get inferenceruns -n {runs.NAMESPACE}",
            file=sys.stderr,
        )
        return 1
    except KeyboardInterrupt:
        print(
            "\ninterrupted; to start again: `make demo`; to clean up: `make demo-down`",
            file=sys.stderr,
        )
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
