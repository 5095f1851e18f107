"""The Temporal server whose clock can be skipped: a run of hours takes a test no time.

It is a Java program that server/pom.xml pins. Maven brings it once into the machine's cache,
outside of the checkout, in a folder named after the pom; a folder is there whole or not at all.
Nothing is skipped while an activity runs.
"""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

POM = Path(__file__).parent / "server" / "pom.xml"
MAVEN_SECONDS = 300
JAVA_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx256m -Dorg.slf4j.simpleLogger.defaultLogLevel=error"


class ServerMissing(Exception):
    """The server cannot be had on this machine; the text says what to do about it."""


def server_program() -> Path:
    """The program to start with a port as its argument; the first time it is brought. Raises
    ServerMissing."""
    java = _program("java", package="default-jre-headless")
    folder = _cache() / f"time-skipping-{hashlib.sha256(POM.read_bytes()).hexdigest()[:16]}"
    if not folder.is_dir():
        _bring(folder)
    program = folder / "server"
    program.write_text(
        f'#!/bin/sh\nexec {java} {JAVA_OPTIONS} -cp "{folder}/*" io.temporal.testserver.TestServer "$1"\n'
    )
    program.chmod(0o755)
    return program


def _bring(folder: Path) -> None:
    maven = _program("mvn", package="maven")
    partial = folder.with_name(f".{folder.name}-{os.getpid()}")
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(POM.parent, partial / "project")
    goal = [
        "dependency:copy-dependencies",
        "-DincludeScope=runtime",
        f"-DoutputDirectory={partial / 'jars'}",
    ]
    command = [
        maven,
        "--batch-mode",
        "--quiet",
        "--strict-checksums",
        "-f",
        str(partial / "project" / "pom.xml"),
        *goal,
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=MAVEN_SECONDS, check=False
    )
    if done.returncode:
        raise ServerMissing(
            f"Maven could not bring the time-skipping server:\n{(done.stdout + done.stderr)[-2000:]}"
        )
    try:
        (partial / "jars").rename(folder)
    except OSError:
        if not folder.is_dir():  # else another one was faster
            raise
    shutil.rmtree(partial)


def _program(name: str, *, package: str) -> str:
    found = shutil.which(name)
    if found is None:
        text = f"{name} is not on the PATH; the workflow tests need a time-skipping server (Debian: apt install {package})"
        raise ServerMissing(text)
    return found


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "inferrun"
