"""What the plug-in API imports. What it exports is pinned by the generated page docs/reference/python.md."""

import json
import subprocess
import sys

FORBIDDEN = {"runner", "temporalio", "kubernetes", "aiohttp", "httpx", "workflows", "activities"}


def test_the_api_imports_no_process_and_no_client() -> None:
    code = "import json, sys, inferrun.plugins; print(json.dumps(sorted({n.partition('.')[0] for n in sys.modules})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert FORBIDDEN.isdisjoint(json.loads(done.stdout))
