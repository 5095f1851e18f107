"""Reads the contract and behaves according to its parameters: `probe` its privileges, `sleep`,
`ignore` SIGTERM or exit with the code `stopped`, use `memory` (MiB), print `lines` of progress,
`say`, `exit`."""

import json
import os
import signal
import sys
import time
from pathlib import Path

parameters = json.loads(Path("/tmp/contract.json").read_text()).get("parameters", {})  # noqa: S108
if parameters.get("ignore") == "yes":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "stopped" in parameters:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(int(parameters["stopped"])))
if parameters.get("probe") == "yes":
    status = dict(
        line.split(":\t", 1)
        for line in Path("/proc/self/status").read_text().splitlines()
        if ":\t" in line
    )
    seen = {
        "token": Path("/var/run/secrets/kubernetes.io/serviceaccount/token").exists(),
        "user": os.getuid(),
        "capabilities": int(status["CapEff"], 16),
        "new privileges": status["NoNewPrivs"] != "1",
    }
    print(json.dumps(seen), flush=True)  # noqa: T201
print(f"sleeps for {parameters.get('sleep', '0')} s", flush=True)  # noqa: T201
ballast = bytearray(int(parameters.get("memory", "0")) << 20)
ballast[::4096] = b"x" * len(ballast[::4096])
for number in range(int(parameters.get("lines", "0"))):
    progress = {
        "event": "progress",
        "records": {"total": 1, "completed": number, "failed": 0},
        "padding": "x" * 900,
    }
    print(json.dumps(progress))  # noqa: T201
time.sleep(float(parameters.get("sleep", "0")))
if "say" in parameters:
    Path("/dev/termination-log").write_text(parameters["say"])
sys.exit(int(parameters.get("exit", "0")))
