"""What a caller reaches stores with: directories, credentials, the environment, and perhaps the
Secrets of the run's namespace.

A login is taken as a whole from one place, so that a password never goes to a server that another
place names: from the caller, or the environment, or the Secret. The caller may replace single keys
of a Secret, such as the address if a port is forwarded.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType

from inferrun.results.errors import PackageMissing, ResultsUnreachable

ReadSecret = Callable[[str], Mapping[str, str]]
"""Returns the decoded values of a Secret in the namespace of the run. Raises ResultsUnreachable."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a caller has."""

    directory: Path | Mapping[str, Path] | None = None
    """Where the claim of the output is mounted, or a copy of the run's folder is; or directories by
    the names of claims."""

    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Values by the keys that a Secret for the store has."""

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    read_secret: ReadSecret | None = None

    def login(
        self, *, keys: Collection[str], secret: str, variables: Collection[str], fix: str
    ) -> Mapping[str, str] | None:
        """Return the keys of a login; None if the environment has one. Raises ResultsUnreachable if
        there is none.

        `keys`: credentials without any of them are not a login; `secret`: the Secret that the
        config names; `fix`: variables to set.
        """
        if not self.credentials.keys().isdisjoint(keys):
            return self.credentials
        if any(self.environment.get(one) for one in variables):
            return None
        if self.read_secret is None:
            raise ResultsUnreachable(
                f"there are no credentials for the store; pass credentials= with the keys of Secret {secret!r}, or set {fix}"
            )
        return {**self.read_secret(secret), **self.credentials}

    def claim(self, name: str) -> Path | None:
        """Return the directory of a claim."""
        return self.directory.get(name) if isinstance(self.directory, Mapping) else self.directory


def load(package: str, *, extra: str = "results") -> ModuleType:
    """Import a package of an extra. Raises PackageMissing."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        raise PackageMissing(
            f"{package.partition('.')[0]} is not installed: pip install 'inferrun[{extra}]'"
        ) from error
