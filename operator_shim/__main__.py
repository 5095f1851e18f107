"""`python -m operator_shim`: watches the resources until SIGTERM.

Exit codes: 0 after SIGTERM, 2 for a wrong setting, 1 for anything that ended it otherwise.
"""

import asyncio
import logging
import os
import sys

from inferrun.kube.errors import KubeError
from inferrun.process import log_to_stdout, serve_health, stop_event
from operator_shim.composition import ShimProcess
from operator_shim.settings import ShimSettings

logger = logging.getLogger("operator_shim")


async def _serve(settings: ShimSettings) -> None:
    stopped = stop_event()
    async with ShimProcess.start(settings) as process:
        health = await serve_health(port=settings.common.health_port, is_ready=lambda: process.is_ready)
        try:
            await process.run_until(stopped)
        finally:
            await health.cleanup()


def main() -> int:
    """Run the process; the exit code."""
    try:
        settings = ShimSettings.read(os.environ)
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    log_to_stdout(level=settings.common.log_level)
    try:
        asyncio.run(_serve(settings))
    except (KubeError, RuntimeError, OSError, ExceptionGroup):
        logger.exception("the shim ends")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
