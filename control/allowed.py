"""What the operator allows configs to use: service accounts and images. Pure.

Checked by the shim, so that users see it on the config, and before every Job, because settings and objects change.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from inferrun.resources import InferenceConfig
from inferrun.resources.validation import Problem, shown
from inferrun.run_defaults import Defaults


@dataclass(frozen=True)
class Allowed:
    """The allow-lists of an installation."""

    service_accounts: tuple[str, ...]
    images: tuple[str, ...]
    """Patterns in which `*` matches any characters; empty: every image is allowed."""

    runner_image: str
    """The built-in runner, which is always allowed."""

    @classmethod
    def read(cls, defaults: Defaults, *, runner_account: str) -> "Allowed":
        """The lists of the current settings. `runner_account` is the SA_RUNNER setting or empty; every config may name it."""
        own = (runner_account,) if runner_account else ()
        return cls(
            service_accounts=(*defaults.allowed_service_accounts, *own),
            images=defaults.allowed_images,
            runner_image=defaults.runner_image,
        )

    def problems(self, config: InferenceConfig) -> tuple[Problem, ...]:
        """The fields of a config that this installation does not allow."""
        return self.problems_of(service_account=config.spec.service_account_name, image=config.spec.image)

    def problems_of(self, *, service_account: str | None, image: str | None) -> tuple[Problem, ...]:
        """The same for a config of which only these fields are known."""
        checks = (self._account_problem(service_account), self._image_problem(image))
        return tuple(problem for problem in checks if problem is not None)

    def problem_of_launch(self, *, service_account: str, image: str) -> str:
        """Why a Job must not use this service account or image; empty if it may. Both may be empty."""
        account, container = self._account_problem(service_account or None), self._image_problem(image or None)
        return "; and ".join(str(problem) for problem in (account, container) if problem is not None)

    def _account_problem(self, name: str | None) -> Problem | None:
        if name is None or name in self.service_accounts:
            return None
        listed = ", ".join(sorted(self.service_accounts)) or "none"
        allowed = f"allowed in this installation: {listed} (setting allowedServiceAccounts)"
        return Problem(field="spec.serviceAccountName", value=shown(name), allowed=allowed)

    def _image_problem(self, image: str | None) -> Problem | None:
        if image is None or not self.images or image == self.runner_image:
            return None
        if any(_matches(image, pattern) for pattern in self.images):
            return None
        allowed = f"allowed in this installation: {', '.join(self.images)} (setting allowedImages)"
        return Problem(field="spec.image", value=shown(image), allowed=allowed)


def _matches(image: str, pattern: str) -> bool:
    literal = pattern.replace("[", "[[]").replace("?", "[?]")  # only `*` is special
    return fnmatchcase(image, literal)
