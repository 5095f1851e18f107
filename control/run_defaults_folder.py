"""Keeps the operator's defaults up to date: re-reads their directory and logs invalid values."""

import asyncio
import logging
from pathlib import Path

from control.log_subjects import set_level
from control.survival import surviving
from inferrun.run_defaults import Defaults, parse_defaults, read_folder

logger = logging.getLogger(__name__)

REREAD_SECONDS = 5.0
"""Interval between reads; the kubelet itself takes up to a minute to update the directory."""


class DefaultsFolder:
    """The defaults in a directory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._texts: dict[str, str] | None = None
        self._defaults = Defaults()
        self.reread()

    def current(self) -> Defaults:
        """The last valid defaults."""
        return self._defaults

    def reread(self) -> None:
        """Apply changes; an invalid value is logged and the last valid one remains in effect."""
        texts = read_folder(self._folder)
        if texts == self._texts:
            return
        is_first, self._texts = self._texts is None, texts
        before = self._defaults
        self._defaults, problems = parse_defaults(texts, last=before)
        for problem in problems:
            logger.error(
                "invalid setting; its last valid value remains in effect",
                extra={"problem": problem},
            )
        if not is_first:
            logger.info("settings reloaded", extra={"folder": str(self._folder)})
        if self._defaults.log_level != before.log_level:
            set_level(self._defaults.log_level)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(REREAD_SECONDS)
            with surviving("the reading of the settings"):
                self.reread()
