"""SGLang's model gateway: what it answers with a worker, and once the worker has gone."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from recording import free_port
from workers import record_router

port = free_port()
command = [
    sys.executable,
    "-m",
    "sglang_router.launch_router",
    "--host",
    "127.0.0.1",
    "--port",
    port,
    "--prometheus-port",
    free_port(),
]
record_router(
    Path(sys.argv[1]).resolve() / "answers",
    command,
    f"http://127.0.0.1:{port}",
    is_ready_without=True,
)
