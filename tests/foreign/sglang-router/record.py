"""SGLang's model gateway: what it answers with a worker, and once the worker has gone."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))
from workers import record_router

program = [sys.executable, "-m", "sglang_router.launch_router"]
record_router(Path(sys.argv[1]).resolve() / "answers", program, is_ready_without=True)
