"""Gives the members of each group (a namespace, say) turns: a few at a time, the others wait in the order in which they asked.

For work that others execute and that would queue up there in front of the work of other groups. Pure; whoever has a turn gives
it back.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")


class Turns(Generic[K]):
    """`resume` is called with the key of a member that had to wait and should ask again."""

    def __init__(self, *, size: int, group: Callable[[K], str], resume: Callable[[K], None]) -> None:
        self._size = size
        self._group = group
        self._resume = resume
        self._groups: dict[str, _Group[K]] = {}

    def take(self, key: K) -> bool:
        """Whether the member has a turn now; if not, it is resumed later. Asking again changes nothing."""
        group = self._groups.setdefault(self._group(key), _Group())
        if key not in group.busy and len(group.busy) >= self._size:
            group.waiting.setdefault(key)
            return False
        group.waiting.pop(key, None)
        group.busy.setdefault(key)
        return True

    def leave(self, key: K) -> None:
        """Give the member's turn back, if it has one. Others are resumed in any case: one that was may not have taken its turn."""
        name = self._group(key)
        group = self._groups.get(name)
        if group is None:
            return
        group.busy.pop(key, None)
        for _ in range(min(self._size - len(group.busy), len(group.waiting))):
            resumed, _ = group.waiting.popitem(last=False)
            self._resume(resumed)
        if not group.busy and not group.waiting:
            del self._groups[name]


class _Group(Generic[K]):
    """The members of a group that have a turn, and those that wait for one."""

    def __init__(self) -> None:
        self.busy: dict[K, None] = {}
        self.waiting: OrderedDict[K, None] = OrderedDict()
