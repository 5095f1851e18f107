"""Why results cannot be read.

ResultsError
├── RunNotEnded          wait for the run
├── NoResults            the run has ended without output that can be read
├── ResultsChanged       the manifest or a part is missing, or is not what the run committed
├── ResultsUnreachable   the store does not answer, or refuses the credentials
├── InputChanged         the input is not the one that the run read, so it cannot be joined
└── PackageMissing       a package is not installed; the message names the extra that has it
"""


class ResultsError(Exception):
    """Results cannot be read; the message says why, and what helps."""


class RunNotEnded(ResultsError):
    """Only a run that has ended has results."""


class NoResults(ResultsError):
    """The run committed no output, or none that can be read."""


class ResultsChanged(ResultsError):
    """What is stored is not what the run committed."""


class ResultsUnreachable(ResultsError):
    """The store of the results cannot be read."""


class InputChanged(ResultsError):
    """The input is not what the run read."""


class PackageMissing(ResultsError):
    """A package that the call needs is not installed."""
