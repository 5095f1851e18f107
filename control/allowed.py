"""What the operator allows configs to use: service accounts and images. Pure.

Checked by the shim, so that users see it on the config, and before every Job, because settings and objects change.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase

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

    def problems(self, *, service_account: str | None, image: str | None) -> tuple[Problem, ...]:
        """Why a config or a Job must not use these. None stands for the installation's default, which is allowed."""
        found = []
        if service_account is not None and service_account not in self.service_accounts:
            listed = ", ".join(sorted(self.service_accounts)) or "none"
            allowed = f"allowed in this installation: {listed} (setting allowedServiceAccounts)"
            found.append(Problem(field="spec.serviceAccountName", value=shown(service_account), allowed=allowed))
        if image is not None and self.images and image != self.runner_image:
            patterns = (one.replace("[", "[[]").replace("?", "[?]") for one in self.images)  # only `*` is special
            if not any(fnmatchcase(image, pattern) for pattern in patterns):
                allowed = f"allowed in this installation: {', '.join(self.images)} (setting allowedImages)"
                found.append(Problem(field="spec.image", value=shown(image), allowed=allowed))
        return tuple(found)
