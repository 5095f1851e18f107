"""The demo: sets a small world up on the cluster of `make cluster` and plays five scenes in it.

    python -m examples.demo up       set up and play (`make demo`)
    python -m examples.demo scene 2  play one scene again, in the world that is set up
    python -m examples.demo down     remove what it set up (`make demo-down`)

The cluster and the product's images are there before (`make cluster images`). It may be played again, also after it was
interrupted. Everything is real: the commands that are shown are the ones that are run, and the first thing that is not as
promised ends it with exit code 1.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from pathlib import Path
from typing import Protocol

from examples.demo import (
    closing,
    every_minute,
    from_outside,
    killed_in_the_middle,
    runs,
    waiting_for_a_secret,
    world,
    wrong_image,
)
from examples.demo.stage import BrokenPromise, Stage, seconds_since

CHECKOUT = Path(__file__).resolve().parents[2]
ENVIRONMENT_FILE = CHECKOUT / ".devcluster" / "env"


class Scene(Protocol):
    """What a scene's module has."""

    TITLE: str
    STORY: str

    def play(self, stage: Stage) -> None: ...


SCENES: tuple[Scene, ...] = (waiting_for_a_secret, killed_in_the_middle, wrong_image, every_minute, from_outside)


def cluster_environment() -> dict[str, str]:
    """This process's environment with what `make cluster` left for those who attach; its programs come first."""
    if not ENVIRONMENT_FILE.exists():
        raise BrokenPromise("there is no cluster: .devcluster/env is missing; `make cluster` makes one")
    words = shlex.split(ENVIRONMENT_FILE.read_text(), comments=True)
    given = dict(word.split("=", 1) for word in words)
    return {**os.environ, **given, "PATH": f"{given['INFERRUN_BIN']}:{os.environ['PATH']}"}


def perform() -> None:
    began = time.monotonic()
    stage = Stage(checkout=CHECKOUT, environment=cluster_environment())
    with stage.scene("The demo's world", story=world.STORY):
        world.set_up(stage)
    for scene in SCENES:
        play(scene, stage)
    closing.bow(stage)
    stage.say(f"All promises were kept, in {seconds_since(began)}.")


def play(scene: Scene, stage: Stage) -> None:
    with stage.scene(scene.TITLE, story=scene.STORY):
        scene.play(stage)


def play_alone(number: int, stage: Stage) -> None:
    world.remove_runs(stage)
    if number != 1:
        world.leave_as_scene_1_does(stage)
    play(SCENES[number - 1], stage)


def main(arguments: list[str]) -> int:
    try:
        match arguments:
            case [] | ["up"]:
                perform()
            case ["scene", number] if number in [str(place) for place in range(1, len(SCENES) + 1)]:
                play_alone(int(number), Stage(checkout=CHECKOUT, environment=cluster_environment()))
            case ["down"]:
                world.take_down(Stage(checkout=CHECKOUT, environment=cluster_environment()))
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except BrokenPromise as broken:
        print(f"\n✗ {broken}\n  Look around: kubectl get inferenceruns -n {runs.NAMESPACE}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; start it again, or `make demo-down`", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
