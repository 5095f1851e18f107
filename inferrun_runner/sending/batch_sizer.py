"""Finds the number of records per request: so many that a request takes about a target time, and
that the server accepts. Pure.

The speed is unknown at first, so the number starts low and grows by a factor of four per request. A
fast model reaches the maximum after a few requests; a slow one stays far below its timeout.

Servers have limits of their own, which few of them tell. So a number that no request had before is
tried by one request at a time. If it is refused, but all of its parts are accepted, the number is
the reason, not a record. The limit is then searched for from below, in steps that double until one
is refused, because most limits are a number that was accepted already, such as a power of two. A
false limit, learned from a server that failed for another reason, does not last: larger requests
are tried again, ever less often.
"""

_FIRST_ROWS, _FACTOR = 16, 4
_SMOOTHING = 0.3
"""Weight of a request that was slower than the moving average of the seconds per record."""

_PRECISION = 32
"""A limit is found if it is known to one part in so many. Larger requests would save less than the
search costs."""

_FIRST_PAUSE = 256
"""Accepted requests after which a larger one than the limit is tried again. Doubled each time that
it is refused."""

_DOUBTS = 3
"""Refused requests that are explained by their number of records only, although as many were
accepted before, without one in between that was accepted: the limit has become lower."""


class BatchSizer:
    """Chooses how many records the next request has; with a target of 0 as many as the server
    accepts."""

    def __init__(self, *, maximum: int, target_seconds: float) -> None:
        self.maximum = maximum
        """The most records in a request."""

        self.proven = 0
        """The most records that the server accepted in a request."""

        self.has_invalid = False
        """Whether records were the reason why requests were refused."""

        self._target = target_seconds
        self._seconds_per_row: float | None = None
        self._fitting = min(_FIRST_ROWS, maximum) if self.is_adaptive else maximum
        """What suits the speed."""

        self._refused: int | None = None
        """The fewest records that the server refuses in a request."""

        self._tried = 0
        """More than the proven number: what a batch has that is not settled; 0 if there is none."""

        self._step = 1
        self._pause = 0
        self._next_pause = _FIRST_PAUSE
        self._doubts = 0

    @property
    def is_adaptive(self) -> bool:
        """Whether the number of records follows the speed."""
        return self._target > 0

    @property
    def most(self) -> int:
        """The most records that may be sent in a request."""
        return self.maximum if self._refused is None else min(self.maximum, self._refused - 1)

    @property
    def fitting(self) -> int:
        """The most records in a request that suit the speed."""
        return min(self._fitting, self.most)

    @property
    def rows(self) -> int:
        """The number of records of the next request."""
        if not self.proven:
            return self.fitting
        if self._tried or self._is_found:
            return min(self.fitting, self.proven)
        if self._refused is not None:
            return min(self.fitting, self.proven + self._step)
        return min(self.fitting, _FACTOR * self.proven) if self.is_adaptive else self.fitting

    @property
    def is_searching(self) -> bool:
        """Whether the server has a limit that is not found yet."""
        return self._refused is not None and not self._is_found

    def begin(self, rows: int) -> None:
        """Note that a batch of so many records is about to be sent."""
        if self.is_suspect(rows):
            self._tried = rows

    def end(self, rows: int) -> None:
        """Note that each record of such a batch has a prediction or an error, or that one of its
        records is why it was refused."""
        if rows == self._tried:
            self._tried = 0

    def accept(self, rows: int) -> None:
        """Note that the server accepted a request."""
        if rows >= self.proven:
            self._doubts = 0
        if rows > self.proven:
            self.proven = rows
            self._step *= 2
            self.end(rows)
        if self.proven > self.most or self._pause == 1:
            self._refused, self._pause = None, 0
        elif self._pause:
            self._pause -= 1
        elif self._is_found:
            self._pause, self._next_pause = self._next_pause, 2 * self._next_pause

    def refuse(self, rows: int, *, is_certain: bool) -> None:
        """Note that the server refused a request, but accepted all of its parts. `is_certain`: it
        said that it is too large."""
        if rows > self.most:
            return  # sent before the limit was known
        if rows <= self.proven:
            self._doubts += 1
            if self._doubts < _DOUBTS and not is_certain:
                return
            self.proven = (rows + 1) // 2
        self._doubts = self._pause = 0
        self._refused = rows
        self._step = self._unit

    def is_suspect(self, rows: int) -> bool:
        """Whether the number of records is probably the reason if a request is refused. What the
        config states is trusted."""
        is_likely = self._refused is not None or (self.is_adaptive and not self.has_invalid)
        return is_likely and rows > self.proven

    def is_trial(self, rows: int) -> bool:
        """Whether a request has more records than those that were accepted."""
        return bool(self.proven) and rows == self._tried

    def observe(self, rows: int, seconds: float) -> None:
        """Take the time of a successful request into account.

        A request that is much smaller than usual, such as the last of a chunk, says little: its
        fixed cost dominates.
        """
        if not self.is_adaptive or (2 * rows < self._fitting and seconds < self._target):
            return
        latest = seconds / rows
        previous = self._seconds_per_row
        if previous is None or latest < previous:
            # larger requests spread the fixed cost; growth is limited by the factor
            self._seconds_per_row = latest
        else:
            self._seconds_per_row = previous + _SMOOTHING * (latest - previous)
        fitting = self._target / max(self._seconds_per_row, 1e-9)
        self._fitting = max(
            1, int(min(fitting, _FACTOR * max(rows, self._fitting // _FACTOR), self.maximum))
        )

    def observe_timeout(self, rows: int) -> None:
        """Take a request into account that did not complete in time."""
        if self.is_adaptive:
            self._fitting = max(1, min(self._fitting, rows // _FACTOR))

    def cap(self, rows: int) -> None:
        """Never send more records in one request, because the server does not survive it."""
        self.maximum = max(1, min(self.maximum, rows))
        self.proven = min(self.proven, self.maximum)

    @property
    def _unit(self) -> int:
        return max(1, self.proven // _PRECISION)

    @property
    def _is_found(self) -> bool:
        return self._refused is not None and self._refused - self.proven <= self._unit
