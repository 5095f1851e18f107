"""Writes the current chunk to a file of this attempt and publishes it. Size and hash are computed while it is written."""

import hashlib
import io
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from inferrun.plugins import Batch, Prediction, RecordFormat
from runner.file.documents import ManifestPart
from runner.file.exclusive_publish import publish


class PartWriter:
    """The current chunk; after `publish` it is the next one."""

    def __init__(self, folder: Path, record_format: RecordFormat) -> None:
        self._folder = folder
        self._format = record_format
        self._file: BinaryIO | None = None
        self._start()

    def append(self, batch: Batch, predictions: Sequence[Prediction]) -> None:
        """Write the results of a batch."""
        text = io.BytesIO()
        self._format.write(text, batch, predictions)
        with text.getbuffer() as content:
            self._open().write(content)
            self._digest.update(content)
            self._bytes += len(content)
        self.records += len(predictions)

    def publish(self, final: Path, *, first: int) -> ManifestPart | None:
        """Publish the chunk under its final name; None if another attempt did. `first` is the index of its first record."""
        description = ManifestPart(
            file=f"predictions/{final.name}",
            first=first,
            records=self.records,
            bytes=self._bytes,
            sha256=self._digest.hexdigest(),
        )
        file = self._open()
        self._file = None
        self._start()
        with file:
            file.flush()
            os.fsync(file.fileno())
        return description if publish(self._folder / "part", final) else None

    def close(self) -> None:
        """Close the file of an unpublished chunk; its content is discarded anyway."""
        if self._file:
            with suppress(OSError):  # a full volume
                self._file.close()

    def _start(self) -> None:
        self.records = 0
        self._bytes = 0
        self._digest = hashlib.sha256()

    def _open(self) -> BinaryIO:
        if self._file is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._file = (self._folder / "part").open("wb")
        return self._file
