"""Whether a stored Job is the one that we would have created, ignoring what the API server and queueing systems add. Pure.

A Job that exists under the name of ours may have been created by an earlier try of the same launch, or by anybody who
may create Jobs in the namespace.
"""

import re
from decimal import Decimal, InvalidOperation
from typing import Final

from activities.rules.manifests import NO_QUEUE, NOT_STARTED, QUEUE_LABEL
from inferrun import wellknown
from inferrun.kube.objects import Object

_ANY: Final = object()
"""Stands for any value."""

_ADDED: Final[dict[str, dict[str, object]]] = {
    "spec": {
        "completionMode": "NonIndexed",
        "manualSelector": False,
        "podReplacementPolicy": "TerminatingOrFailed",
        "selector": _ANY,
        "suspend": _ANY,
        "ttlSecondsAfterFinished": _ANY,
    },
    "spec.template.metadata": {"creationTimestamp": None, "name": ""},
    "spec.template.spec": {
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "serviceAccount": _ANY,
        "nodeSelector": _ANY,
        "tolerations": _ANY,
        "affinity": _ANY,
        "schedulingGates": _ANY,
    },
    "spec.template.spec.containers": {
        "imagePullPolicy": _ANY,
        "terminationMessagePath": "/dev/termination-log",
        "resources": {},
    },
    "spec.template.spec.containers.env": {"value": ""},
    "spec.template.spec.containers.env.valueFrom.fieldRef": {"apiVersion": "v1"},
    "spec.template.spec.containers.volumeMounts": {"readOnly": False},
    "spec.template.spec.initContainers": {
        "imagePullPolicy": _ANY,
        "terminationMessagePath": "/dev/termination-log",
        "resources": {},
    },
    "spec.template.spec.initContainers.env": {"value": ""},
    "spec.template.spec.initContainers.volumeMounts": {"readOnly": False},
    "spec.template.spec.volumes.configMap": {"defaultMode": 420},
    "spec.template.spec.volumes.secret": {"defaultMode": 420, "optional": False},
}
"""By path, without the positions in lists: what may be present in addition, with its value. What is absent here is ours
alone: containers, volumes, accounts, priorities, host access and limits.
"""

_SUBSETS: Final = ("spec.template.metadata.labels", "spec.template.metadata.annotations")
"""Maps to which anybody may add keys."""

_GUARDED_LABELS: Final = (f"{wellknown.DOMAIN}/", "kueue.x-k8s.io/")
"""Prefixes of the labels that a Job has only if we set them, except for that of its end."""

_QUANTITIES: Final = re.compile(r"\.(initContainers|containers)\.resources\.|\.sizeLimit$")
_SUFFIXES: Final = {"m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18, "n": -9, "u": -6}
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}


def difference(wanted: Object, stored: Object) -> str:
    """The first path at which the stored Job differs from the wanted one; empty if it does not."""
    labels, spec = stored["metadata"].get("labels") or {}, stored.get("spec")
    started = wanted["spec"]["completions"], NOT_STARTED
    if isinstance(spec, dict) and (spec.get("parallelism"), wanted["spec"]["parallelism"]) == started:
        spec = {**spec, "parallelism": NOT_STARTED}  # an earlier try, or an earlier version, has started it
        labels = _labels_before_start(wanted, labels)
    return _difference_of_labels(wanted["metadata"].get("labels") or {}, labels) or _difference(
        wanted["spec"], spec, path="spec"
    )


def _labels_before_start(wanted: Object, labels: Object) -> Object:
    """The labels that a Job had if it was given its own queue when it was started."""
    own = (wanted["spec"]["template"]["metadata"].get("labels") or {}).get(QUEUE_LABEL)
    return {**labels, QUEUE_LABEL: NO_QUEUE} if own and labels.get(QUEUE_LABEL) == own else labels


def _difference_of_labels(wanted: Object, stored: Object) -> str:
    for key in {*wanted, *stored}:
        is_ours = key in wanted or (key.startswith(_GUARDED_LABELS) and key != wellknown.LABEL_ENDED)
        if is_ours and wanted.get(key) != stored.get(key):
            return f"metadata.labels[{key}]"
    return ""


def _difference(wanted: object, stored: object, *, path: str) -> str:
    if isinstance(wanted, dict):
        return _difference_of_maps(wanted, stored, path=path) if isinstance(stored, dict) else path
    if isinstance(wanted, list):
        return _difference_of_lists(wanted, stored, path=path) if isinstance(stored, list) else path
    if wanted == stored and isinstance(wanted, bool) == isinstance(stored, bool):
        return ""
    return "" if _QUANTITIES.search(path) and _is_same_quantity(wanted, stored) else path


def _difference_of_lists(wanted: list[object], stored: list[object], *, path: str) -> str:
    if len(wanted) != len(stored):
        return path
    found = (_difference(one, other, path=path) for one, other in zip(wanted, stored, strict=True))
    return next(filter(None, found), "")


def _difference_of_maps(wanted: Object, stored: Object, *, path: str) -> str:
    for key, value in wanted.items():
        if key not in stored:
            if value in ({}, [], None, False, ""):
                continue
            return f"{path}.{key}"
        if found := _difference(value, stored[key], path=f"{path}.{key}"):
            return found
    if path in _SUBSETS:
        return ""
    added = _ADDED.get(path, {})
    for key in stored.keys() - wanted.keys():
        if key not in added or (added[key] is not _ANY and added[key] != stored[key] and stored[key] is not None):
            return f"{path}.{key}"
    return ""


def _is_same_quantity(wanted: object, stored: object) -> bool:
    """Whether two texts are the same amount: the API server stores 1000m as 1."""
    if not isinstance(wanted, str) or not isinstance(stored, str):
        return False
    amount = _amount(wanted)
    return amount is not None and amount == _amount(stored)


def _amount(text: str) -> Decimal | None:
    digits = text.rstrip("numkKMGTPEi")
    suffix = text[len(digits) :]
    try:
        number = Decimal(digits)
        if suffix in _BINARY:
            return number * Decimal(1024) ** _BINARY[suffix]
        return number.scaleb(_SUFFIXES[suffix])
    except (InvalidOperation, KeyError):
        return None
