"""What the operator allows configs to use: service accounts and images. Pure.

Checked by the shim, so that users see it on the config, and before every Job, because settings and objects change.
"""

from fnmatch import fnmatchcase

from inferrun.resources.problems import Problem, shown
from inferrun.run_defaults import Defaults


def disallowed(
    defaults: Defaults, *, runner_account: str, service_account: str | None, image: str | None
) -> tuple[Problem, ...]:
    """Why a config or a Job must not use this service account and image. None stands for the default, which is allowed.

    `runner_account` is the SA_RUNNER setting or empty; every config may name it, and the image of the built-in runner.
    """
    accounts = (*defaults.allowed_service_accounts, *((runner_account,) if runner_account else ()))
    images, found = defaults.allowed_images, []
    if service_account is not None and service_account not in accounts:
        listed = ", ".join(sorted(accounts)) or "none"
        allowed = f"allowed in this installation: {listed} (setting allowedServiceAccounts)"
        found.append(Problem(field="spec.serviceAccountName", value=shown(service_account), allowed=allowed))
    if image is not None and images and image != defaults.runner_image:
        patterns = (one.replace("[", "[[]").replace("?", "[?]") for one in images)  # only `*` is special
        if not any(fnmatchcase(image, pattern) for pattern in patterns):
            allowed = f"allowed in this installation: {', '.join(images)} (setting allowedImages)"
            found.append(Problem(field="spec.image", value=shown(image), allowed=allowed))
    return tuple(found)
