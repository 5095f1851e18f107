"""As whom a run's Pods execute what: the image, its user, its service account. Pure."""

from inferrun.kube.objects import Object
from inferrun.launches.verdict import Frozen
from inferrun.resources import InferenceConfig
from inferrun.resources.config import RUN_AS_USER
from inferrun.run_defaults import Defaults

GROUP_ID = 65532
CONTAINER_SECURITY: Object = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
READ_ONLY_SECURITY: Object = CONTAINER_SECURITY | {"readOnlyRootFilesystem": True}


class PodIdentity(Frozen):
    """The image of a run's Pods, and the rights with which it is executed."""

    image: str
    is_our_runner: bool
    image_pull_policy: str | None = None
    pull_secret: str | None = None
    pull_secret_namespace: str = ""
    run_as_user: int | None = RUN_AS_USER
    """None: the cluster assigns one."""

    has_fixed_group: bool = True
    service_account: str = ""
    is_root_read_only: bool = False


def identity_of(config: InferenceConfig, *, defaults: Defaults, runner_account: str) -> PodIdentity:
    """The identity of the Pods of a config's runs."""
    spec, credentials = config.spec, config.spec.credentials_ref
    is_our_runner = spec.image in (None, defaults.runner_image)
    return PodIdentity(
        image=spec.image or defaults.runner_image,
        is_our_runner=is_our_runner,
        image_pull_policy=spec.image_pull_policy,
        pull_secret=credentials.name if credentials else None,
        pull_secret_namespace=(credentials.namespace or "") if credentials else "",
        run_as_user=spec.run_as_user or (RUN_AS_USER if defaults.fixed_user else None),
        has_fixed_group=defaults.fixed_user,
        service_account=spec.service_account_name or ("" if is_our_runner else runner_account),
        is_root_read_only=is_our_runner,
    )


def container_fields(identity: PodIdentity) -> Object:
    """Fields of the container `inference`."""
    fields: Object = {
        "image": identity.image,
        "terminationMessagePolicy": "FallbackToLogsOnError" if identity.is_our_runner else "File",
        "securityContext": READ_ONLY_SECURITY if identity.is_root_read_only else CONTAINER_SECURITY,
    }
    if identity.image_pull_policy:
        fields["imagePullPolicy"] = identity.image_pull_policy
    return fields


def pod_fields(identity: PodIdentity, *, has_claims: bool) -> Object:
    """Fields of the Pod; `has_claims` says whether it mounts volumes whose files its group must be
    able to access."""
    security: Object = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    if identity.run_as_user is not None:
        security["runAsUser"] = identity.run_as_user
    if identity.has_fixed_group:
        security["runAsGroup"] = GROUP_ID
        if has_claims:
            security |= {"fsGroup": GROUP_ID, "fsGroupChangePolicy": "OnRootMismatch"}
    fields: Object = {
        "automountServiceAccountToken": bool(identity.service_account),
        "securityContext": security,
    }
    if identity.service_account:
        fields["serviceAccountName"] = identity.service_account
    if identity.pull_secret:
        fields["imagePullSecrets"] = [{"name": identity.pull_secret}]
    return fields
