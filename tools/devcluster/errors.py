"""The error that this tooling reports to its users.

DevClusterError: something outside of this program is in the way (a missing privilege, an occupied
port, a missing tool, a program that does not start). It has a one-line message, a fix that the user
can apply and, if useful, the output of the program that failed. It is printed without a traceback.
"""


class DevClusterError(Exception):
    """What is wrong and how to fix it."""

    def __init__(self, message: str, *, fix: str, detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.detail = detail
