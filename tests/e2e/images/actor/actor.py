"""Reads the contract and behaves according to its parameters: `sleep`, `ignore` SIGTERM, `memory` (MiB), `say`, `exit`."""

import json
import signal
import sys
import time
from pathlib import Path

parameters = json.loads(Path("/tmp/contract.json").read_text()).get("parameters", {})  # noqa: S108
if parameters.get("ignore") == "yes":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(f"sleeps for {parameters.get('sleep', '0')} s", flush=True)  # noqa: T201
ballast = bytearray(int(parameters.get("memory", "0")) << 20)
ballast[::4096] = b"x" * len(ballast[::4096])
time.sleep(float(parameters.get("sleep", "0")))
if "say" in parameters:
    Path("/dev/termination-log").write_text(parameters["say"])
sys.exit(int(parameters.get("exit", "0")))
