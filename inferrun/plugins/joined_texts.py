"""Texts that follow each other in one buffer. Pure.

Most texts are only passed on. An object for each would then take more time than everything that is done with them.
"""

from collections.abc import Iterator, Sequence
from typing import Final, final, overload

_STEPS: Final = 8
"""Separators that are searched for one by one. More are counted, which is faster."""

_FEW: Final = 4
"""Texts up to which a part is a list. If parts are so small, an object per text takes less time than a search for each part."""


@final
class JoinedTexts(Sequence[bytes]):
    """Texts, separated by one byte that none of them contains. A part shares the buffer of the whole.

    Compare the type instead of calling `isinstance`, which takes long for an abstract class such as Sequence.
    """

    __slots__ = ("_buffer", "_count", "_end", "_found", "_start", "_texts", "separator")

    def __init__(
        self, buffer: bytes, count: int, *, separator: bytes = b"\n", start: int = 0, end: int | None = None
    ) -> None:
        """The texts are the bytes from `start` to `end` of the buffer, in which there are `count - 1` separators."""
        self._buffer = buffer
        self._start = start
        self._end = len(buffer) if end is None else end
        self._count = count
        self._texts: list[bytes] | None = None
        self._found = 0, start
        self.separator = separator

    @property
    def joined(self) -> bytes:
        """The texts with their separators."""
        return self._buffer[self._start : self._end]

    @property
    def size(self) -> int:
        """The bytes of the texts without their separators."""
        return self._end - self._start - max(self._count - 1, 0)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._split())

    @overload
    def __getitem__(self, at: int) -> bytes: ...

    @overload
    def __getitem__(self, at: slice) -> Sequence[bytes]: ...

    def __getitem__(self, at: int | slice) -> bytes | Sequence[bytes]:
        if self._texts is not None:
            return self._texts[at]
        if isinstance(at, slice):
            begin, stop, step = at.indices(self._count)
            if step == 1 and stop - begin > _FEW:
                return self._part(begin, stop)
        elif at == 0 and self._count:
            return self._buffer[self._start : self._position(1) - 1]
        return self._split()[at]

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, (JoinedTexts, list, tuple)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as a list

    def __repr__(self) -> str:
        return f"JoinedTexts({list(self)!r})"

    def _split(self) -> list[bytes]:
        if self._texts is None:
            self._texts = self.joined.split(self.separator) if self._count else []
        return self._texts

    def _part(self, begin: int, stop: int) -> "JoinedTexts":
        start, end = self._position(begin), self._position(stop) - 1
        return JoinedTexts(self._buffer, stop - begin, separator=self.separator, start=start, end=end)

    def _position(self, at: int) -> int:
        """Return where a text begins; after the last one there is a separator, or there might be.

        The search starts at the position that was found last, because parts are mostly taken from the front to the end. The
        position is estimated from the average length, and corrected by the number of separators before it.
        """
        if at == self._count:
            return self._end + 1
        before, low = self._found if self._found[0] <= at else (0, self._start)
        high, after = self._end, self._count
        is_halved = False
        while at - before > _STEPS:
            share = (at - before - _STEPS // 2) / (after - before)
            middle = low + max(1, int((high - low) * (0.5 if is_halved else share)))
            found = before + self._buffer.count(self.separator, low, middle)
            if found < at:
                low, before = middle, found
            else:
                high, after = middle, found
            is_halved = not is_halved
        for _ in range(at - before):
            low = self._buffer.index(self.separator, low) + 1
        self._found = at, low
        return low
