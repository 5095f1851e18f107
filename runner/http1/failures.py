"""What the client raises."""

from inferrun.plugins import FaultKind


class ExchangeFailed(Exception):
    """There is no response. The text is for users and contains nothing that was sent or received."""

    def __init__(self, text: str, *, kind: FaultKind, was_sent: bool = False) -> None:
        """`was_sent` is False if the request certainly did not reach the server."""
        super().__init__(text)
        self.kind = kind
        self.was_sent = was_sent


class Refused(ExchangeFailed):
    """Runs must not connect to the address."""


class ResponseTooLarge(Exception):
    """The response has more bytes than allowed."""
