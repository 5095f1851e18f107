"""What the operator allows configs to use: service accounts, images, nodes, priorities and
runtimes. Pure.

Checked by the shim, so that users see it on the config, and before every Job, because settings and
objects change.
"""

from inferrun.fields.problems import Problem, shown
from inferrun.resources.placement import Placement
from inferrun.run_defaults import Defaults, matches


def disallowed(
    defaults: Defaults,
    *,
    runner_account: str,
    service_account: str | None,
    image: str | None,
    placement: Placement,
) -> tuple[Problem, ...]:
    """Why a config or a Job must not use this service account, image and placement. None stands for
    the default, which is allowed.

    `runner_account` is the SA_RUNNER setting or empty; every config may name it, and the image of
    the built-in runner.
    """
    accounts = (*defaults.allowed_service_accounts, *((runner_account,) if runner_account else ()))
    named = (
        ("serviceAccountName", service_account, tuple(sorted(accounts)), "allowedServiceAccounts"),
        (
            "priorityClassName",
            placement.priority_class_name,
            defaults.allowed_priority_classes,
            "allowedPriorityClasses",
        ),
        (
            "runtimeClassName",
            placement.runtime_class_name,
            defaults.allowed_runtime_classes,
            "allowedRuntimeClasses",
        ),
    )
    matched = [
        *(
            (field, label, defaults.allowed_node_labels, "allowedNodeLabels")
            for field, label in placement.node_labels()
        ),
        *(
            ("tolerations", str(one), defaults.allowed_tolerations, "allowedTolerations")
            for one in placement.tolerations or ()
        ),
    ]
    if image and image != defaults.runner_image and defaults.allowed_images:
        matched.append(("image", image, defaults.allowed_images, "allowedImages"))
    found = [
        (field, name, listed, of)
        for field, name, listed, of in named
        if name and name not in listed
    ]
    found += [
        (field, text, listed, of)
        for field, text, listed, of in matched
        if not matches(text, listed)
    ]
    return tuple(
        Problem(
            field=f"spec.{field}",
            value=shown(value),
            allowed=f"allowed in this installation: {', '.join(listed) or 'none'} (setting {setting})",
        )
        for field, value, listed, setting in dict.fromkeys(found)
    )
