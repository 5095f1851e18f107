"""Keeps the operator's defaults current: re-reads their folder and tells what is wrong in it."""

import asyncio
import logging
from pathlib import Path

from inferrun.control.run_defaults import Defaults, parse_defaults, read_folder

logger = logging.getLogger(__name__)

REREAD_SECONDS = 5.0
"""Between two looks at the folder; the kubelet itself takes up to a minute to bring a change there."""


class DefaultsFolder:
    """The defaults as last read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._texts: dict[str, str] | None = None
        self._defaults = Defaults()
        self.reread()

    def current(self) -> Defaults:
        """The last good defaults."""
        return self._defaults

    def reread(self) -> None:
        """Take over what changed; a bad value keeps its last good one and is logged."""
        texts = read_folder(self._folder)
        if texts == self._texts:
            return
        is_first, self._texts = self._texts is None, texts
        self._defaults, problems = parse_defaults(texts, last=self._defaults)
        for problem in problems:
            logger.error("a setting is wrong and keeps its last good value", extra={"problem": problem})
        if not is_first:
            logger.info("settings were read again", extra={"folder": str(self._folder)})

    async def run(self) -> None:
        """Re-read until cancelled."""
        while True:
            await asyncio.sleep(REREAD_SECONDS)
            try:
                self.reread()
            except OSError as error:
                logger.warning("settings cannot be read", extra={"error": str(error)})
