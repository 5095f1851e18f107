"""The one error that this tooling shows to a person.

Problem: something outside of this program stands in the way (a privilege, a port, a tool, a program that does not come up).
Its text is one line that names the thing; its cure is what the person can type. It never becomes a traceback.
"""


class Problem(Exception):
    """What is wrong, and what to do about it."""

    def __init__(self, what: str, *, cure: str, detail: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.cure = cure
        self.detail = detail
