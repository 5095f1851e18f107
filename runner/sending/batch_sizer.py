"""Adapts the number of records per request to the speed of the model, so that a request takes about a target time. Pure.

It starts with few records, because the speed is unknown, and grows by a factor of four per request. A fast model reaches the
maximum after a few requests; a slow one stays far below its timeout.
"""

_FIRST_ROWS, _FACTOR = 16, 4
_SMOOTHING = 0.3
"""Weight of a request that was slower than the moving average of the seconds per record."""


class BatchSizer:
    """Chooses how many records the next request has; with a target of 0 always the maximum."""

    def __init__(self, *, maximum: int, target_seconds: float) -> None:
        self.maximum = maximum
        """The most records in a request."""

        self._target = target_seconds
        self._seconds_per_row: float | None = None
        self.rows = min(_FIRST_ROWS, maximum) if self.is_adaptive else maximum

    @property
    def is_adaptive(self) -> bool:
        """Whether the number of records changes at all."""
        return self._target > 0

    def observe(self, rows: int, seconds: float) -> None:
        """Take a successful request into account.

        A request that is much smaller than usual, such as the last of a chunk, says little: its fixed cost dominates.
        """
        if not self.is_adaptive or (2 * rows < self.rows and seconds < self._target):
            return
        latest = seconds / rows
        previous = self._seconds_per_row
        if previous is None or latest < previous:
            self._seconds_per_row = latest  # larger requests spread the fixed cost; growth is limited by the factor
        else:
            self._seconds_per_row = previous + _SMOOTHING * (latest - previous)
        fitting = self._target / max(self._seconds_per_row, 1e-9)
        self.rows = max(1, int(min(fitting, _FACTOR * max(rows, self.rows // _FACTOR), self.maximum)))

    def observe_timeout(self, rows: int) -> None:
        """Take a request into account that did not complete in time."""
        if self.is_adaptive:
            self.rows = max(1, min(self.rows, rows // _FACTOR))

    def cap(self, rows: int) -> None:
        """Never send more records in one request, because the server does not survive it."""
        self.maximum = max(1, min(self.maximum, rows))
        self.rows = min(self.rows, self.maximum)
