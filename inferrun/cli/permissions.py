"""The permissions that a user, the shim and the worker need, and the access reviews that check
them. Pure.

A user's permissions are checked with a SelfSubjectAccessReview, which every user may create; those
of a service account with a SubjectAccessReview, which only administrators may create. A test
compares the tables with the chart's roles.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from inferrun import wellknown
from inferrun.cli.findings import Finding, ok, problem
from inferrun.kserve import GROUP
from inferrun.kube.objects import Object


@dataclass(frozen=True)
class Permission:
    """A verb on a resource or subresource, such as `pods/log`."""

    verb: str
    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")


def _permissions(group: str, resource: str, *verbs: str) -> tuple[Permission, ...]:
    return tuple(Permission(verb, group, resource) for verb in verbs)


PERSON: Final = (
    *_permissions(
        wellknown.GROUP, wellknown.CONFIG_PLURAL, "get", "list", "create", "patch", "delete"
    ),
    *_permissions(
        wellknown.GROUP, wellknown.RUN_PLURAL, "get", "list", "watch", "create", "patch", "delete"
    ),
)
"""Permissions of a user who works with configs and runs in a namespace."""

SHIM: Final = (
    *_permissions(wellknown.GROUP, wellknown.RUN_PLURAL, "get", "list", "watch", "patch"),
    *_permissions(wellknown.GROUP, wellknown.CONFIG_PLURAL, "get", "list", "watch"),
    *_permissions(wellknown.GROUP, f"{wellknown.RUN_PLURAL}/status", "patch"),
    *_permissions(wellknown.GROUP, f"{wellknown.CONFIG_PLURAL}/status", "patch"),
    *_permissions("batch", "jobs", "get", "list", "watch", "patch", "delete"),
    *_permissions("", "pods", "list", "watch"),
    *_permissions("", "pods/log", "get"),
    *_permissions("", "configmaps", "get"),
    *_permissions("", "events", "list", "create"),
    *_permissions("", "resourcequotas", "list", "watch"),
    *_permissions(GROUP, "inferenceservices", "list", "watch"),
    *_permissions(GROUP, "llminferenceservices", "list", "watch"),
)
"""Permissions of the shim in the watched namespaces."""

WORKER: Final = (
    *_permissions(
        wellknown.GROUP, wellknown.RUN_PLURAL, "get", "list", "create", "patch", "delete"
    ),
    *_permissions(wellknown.GROUP, f"{wellknown.RUN_PLURAL}/status", "patch"),
    *_permissions(wellknown.GROUP, wellknown.CONFIG_PLURAL, "get"),
    *_permissions("batch", "jobs", "get", "list", "create", "patch", "delete"),
    *_permissions("", "pods", "list", "delete"),
    *_permissions("", "pods/log", "get"),
    *_permissions("", "configmaps", "get", "create"),
    *_permissions("", "events", "list", "create"),
    *_permissions(GROUP, "inferenceservices", "get"),
    *_permissions(GROUP, "llminferenceservices", "get"),
    *_permissions(GROUP, "llminferenceserviceconfigs", "get"),
    *_permissions(GROUP, "servingruntimes", "get"),
    *_permissions(GROUP, "clusterservingruntimes", "get"),
    *_permissions("apps", "deployments", "get"),
    *_permissions("", "services", "get"),
)
"""Permissions of the worker in the watched namespaces."""

AT_HOME: Final = _permissions("coordination.k8s.io", "leases", "get", "create", "patch")
"""Permissions of both in their own namespace: Leases record the cluster's part of the
installation's id and the keys of its processes; with another one, one of several shims is elected.
"""


def access_review(
    permission: Permission, *, namespace: str, account: str, account_namespace: str
) -> Object:
    """A review of whether a service account, or else the user, has a permission; an empty
    `namespace` means all namespaces."""
    resource, _, sub = permission.resource.partition("/")
    attributes = {
        "verb": permission.verb,
        "group": permission.group,
        "resource": resource,
        "namespace": namespace,
    }
    spec: Object = {"resourceAttributes": attributes | ({"subresource": sub} if sub else {})}
    if account:
        groups = (
            "system:serviceaccounts",
            f"system:serviceaccounts:{account_namespace}",
            "system:authenticated",
        )
        spec |= {
            "user": f"system:serviceaccount:{account_namespace}:{account}",
            "groups": list(groups),
        }
    kind = "SubjectAccessReview" if account else "SelfSubjectAccessReview"
    return {"apiVersion": "authorization.k8s.io/v1", "kind": kind, "spec": spec}


def judge_permissions(what: str, denied: Sequence[Permission], *, namespace: str) -> Finding:
    """The finding about the permissions of the user in a namespace, or without a namespace those of
    a service account."""
    if not denied:
        return ok(what, "sufficient for configs and runs" if namespace else "sufficient")
    fix = "helm upgrade with the chart of this version, which contains the roles; or add the permissions to the existing role"
    if namespace:
        fix = (
            "ask an administrator for the role edit in this namespace, which includes the two resources, for example\n"
            f"kubectl create rolebinding inference --clusterrole=edit --user=YOU -n {namespace}"
        )
    return problem(what, f"missing: {', '.join(map(str, denied))}", fix=fix)
