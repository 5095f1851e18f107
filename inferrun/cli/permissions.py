"""The rights that a person and the two programs need, as questions to the API server, and what its answers mean. Pure.

A person is asked about with a SelfSubjectAccessReview, which everybody may create; a program's service account with a
SubjectAccessReview, which only administrators may. A test compares the two programs' tables with the chart's roles.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from inferrun import wellknown
from inferrun.cli.findings import Finding, ok, problem
from inferrun.kube.objects import Object


@dataclass(frozen=True)
class Right:
    """One verb on one resource; `resource` may name a subresource, as in `pods/log`."""

    verb: str
    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")


def _rights(group: str, resource: str, *verbs: str) -> tuple[Right, ...]:
    return tuple(Right(verb, group, resource) for verb in verbs)


PERSON: Final = (
    *_rights(wellknown.GROUP, wellknown.CONFIG_PLURAL, "get", "list", "create", "patch", "delete"),
    *_rights(wellknown.GROUP, wellknown.RUN_PLURAL, "get", "list", "watch", "create", "patch", "delete"),
)
"""What somebody needs who works with configs and runs in a namespace."""

SHIM: Final = (
    *_rights(wellknown.GROUP, wellknown.RUN_PLURAL, "get", "list", "watch", "patch"),
    *_rights(wellknown.GROUP, wellknown.CONFIG_PLURAL, "get", "list", "watch"),
    *_rights(wellknown.GROUP, f"{wellknown.RUN_PLURAL}/status", "patch"),
    *_rights(wellknown.GROUP, f"{wellknown.CONFIG_PLURAL}/status", "patch"),
)
"""What the shim needs where it watches."""

WORKER: Final = (
    *_rights(wellknown.GROUP, wellknown.RUN_PLURAL, "get", "list", "create", "patch", "delete"),
    *_rights(wellknown.GROUP, f"{wellknown.RUN_PLURAL}/status", "patch"),
    *_rights(wellknown.GROUP, wellknown.CONFIG_PLURAL, "get"),
    *_rights("batch", "jobs", "get", "list", "watch", "create", "patch", "delete"),
    *_rights("", "pods", "get", "list", "watch", "delete"),
    *_rights("", "pods/log", "get"),
    *_rights("", "configmaps", "get", "create"),
    *_rights("", "events", "list", "create"),
)
"""What the worker needs where it watches."""


def self_review(right: Right, *, namespace: str) -> Object:
    """The question whether the asker has a right."""
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": _attributes(right, namespace)},
    }


def account_review(right: Right, *, namespace: str, account: str, account_namespace: str) -> Object:
    """The question whether a service account has a right; an empty `namespace` means all of them."""
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{account_namespace}:{account}",
            "groups": [
                "system:serviceaccounts",
                f"system:serviceaccounts:{account_namespace}",
                "system:authenticated",
            ],
            "resourceAttributes": _attributes(right, namespace),
        },
    }


def _attributes(right: Right, namespace: str) -> Object:
    resource, _, sub = right.resource.partition("/")
    attributes = {"verb": right.verb, "group": right.group, "resource": resource, "namespace": namespace}
    return attributes | ({"subresource": sub} if sub else {})


def is_allowed(review: Object) -> bool:
    """What the API server answered."""
    return bool(review.get("status", {}).get("allowed"))


def judge_person(refused: Sequence[Right], *, namespace: str) -> Finding:
    """The finding on the asker's own rights in a namespace."""
    what = f"your rights in namespace {namespace}"
    if not refused:
        return ok(what, "you may work with configs and runs")
    cure = (
        "ask an administrator for the role edit in that namespace (the chart adds the two resources to it), for example\n"
        f"kubectl create rolebinding inference --clusterrole=edit --user=YOU -n {namespace}"
    )
    return problem(what, f"you may not {_listed(refused)}", cure=cure)


def judge_account(account: str, refused: Sequence[Right], *, where: str) -> Finding:
    """The finding on a program's service account."""
    what = f"rights of service account {account} in {where}"
    if not refused:
        return ok(what, "it has all it needs")
    cure = (
        "helm upgrade with the chart of this version, which brings the roles; or add what is missing to the role it has"
    )
    return problem(what, f"it may not {_listed(refused)}", cure=cure)


def _listed(rights: Iterable[Right]) -> str:
    return ", ".join(str(right) for right in rights)
