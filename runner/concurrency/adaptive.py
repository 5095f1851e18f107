"""A limit that follows the server: the search for the knee of its throughput, below what it admits. Pure."""

from runner.concurrency.admission import Admission
from runner.concurrency.limit import Ticket
from runner.concurrency.search import Search


class AdaptiveLimit:
    """The smaller of both limits. It falls at once, and rises by `grow`."""

    def __init__(self, *, start: int, maximum: int) -> None:
        self._search = Search(start=start, maximum=maximum)
        self._admission = Admission()
        self._number = self._search.limit

    @property
    def number(self) -> int:
        """The number of requests that may be in flight."""
        return self._number

    @property
    def may_grow(self) -> bool:
        """Whether it is below what it should be, or may soon be."""
        return self._number < self._wanted() or self._admission.is_in_doubt

    def grow(self) -> None:
        """Raise it by one, unless the latest rejection stops that."""
        if self._admission.is_in_doubt:
            self._admission.wait()
        self._number = min(self._number + 1, self._wanted())

    def ticket(self, in_flight: int) -> Ticket:
        """Describe a request, which is about to be sent."""
        self._admission.send(in_flight)
        return Ticket(in_flight, self._search.round, self._admission.cuts)

    def accepted(self, ticket: Ticket) -> None:
        """Note that a request was not rejected."""
        self._admission.accept(ticket.in_flight, is_current=ticket.cut == self._admission.cuts)
        if self._admission.is_refuted(self._search.limit):
            self._admission.lift()
            self._search.hurry()

    def measured(self, ticket: Ticket, *, records: int, seconds: float) -> None:
        """Note how long a request took."""
        if ticket.round == self._search.round:
            self._search.observe(in_flight=ticket.in_flight, records=records, seconds=seconds)
            self._number = min(self._number, self._wanted())

    def rejected(self, ticket: Ticket) -> bool:
        """Note a rejection. If not even a single request is accepted, nothing should be sent for a while."""
        self._admission.reject(ticket.in_flight, is_current=ticket.cut == self._admission.cuts)
        self._number = min(self._number, self._wanted())
        return ticket.in_flight == 1

    def timed_out(self, ticket: Ticket) -> None:
        """Halve the limit, once for all requests that were sent at the same level."""
        if ticket.round == self._search.round:
            self._search.halve()
            self._number = min(self._number, self._wanted())

    def _wanted(self) -> int:
        admitted = self._admission.limit
        return self._search.limit if admitted is None else min(admitted, self._search.limit)
