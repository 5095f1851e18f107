"""What a Pod executes, reduced to a digest, so that a Pod can be compared with the template of its
Job. Pure.

Users who may create Pods can give one the labels and the owner reference of a Job's Pods. What they
cannot do is have it count without running the same program on the same contract: the digest covers
the container's image, command, environment and the mounts that we define. Admission may add
containers, volumes, environment variables, image digests and a user, as OpenShift does; the digest
ignores them.
"""

import hashlib
import json
import sys
from collections.abc import Iterable
from typing import Final

from inferrun import wellknown
from inferrun.kube.objects import Object, annotations_of, name_of, spec_of, template_spec_of
from inferrun.launches.manifests import CONTAINER, CONTRACT_PATH
from inferrun.launches.pod_mounts import DATA_PATH, ENDPOINTS_PATH
from inferrun.text import one_line, shell_command

KEPT_SHAPE: Final = "shape"
"""Key in the metadata of a trimmed object, whose spec is not kept."""

_OUR_VARIABLES: Final = ("INFERRUN_", "pod_uid", "HOME")
_OUR_MOUNTS: Final = ("/tmp", CONTRACT_PATH, ENDPOINTS_PATH, DATA_PATH)  # noqa: S108 -- a path in the container
_PROGRAM_FIELDS: Final = (
    "command",
    "args",
    "workingDir",
    "lifecycle",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
)


def shape_of_pod(pod: Object) -> str:
    """The digest of a Pod, also of a trimmed one."""
    kept = pod["metadata"].get(KEPT_SHAPE)
    return str(kept) if kept is not None else _shape_of(spec_of(pod))


def shape_of_job(job: Object) -> str:
    """The digest that the Pods of a Job have, also of a trimmed one."""
    kept = job["metadata"].get(KEPT_SHAPE)
    return str(kept) if kept is not None else _shape_of(template_spec_of(job))


def split_by_shape(pods: Iterable[Object], *, shape: str) -> tuple[list[Object], list[Object]]:
    """The Pods with this shape, and the others."""
    genuine: list[Object] = []
    others: list[Object] = []
    for pod in pods:
        (genuine if shape and shape_of_pod(pod) == shape else others).append(pod)
    return genuine, others


def program_of(spec: Object) -> Object:
    """The container `inference` of a Pod's spec, reduced to what `difference` compares; empty
    without that container."""
    container = _container(spec)
    if container is None:
        return {}
    ours = [
        one
        for one in container.get("env") or []
        if str(one.get("name", "")).startswith(_OUR_VARIABLES)
    ]
    program = {"name": CONTAINER, "image": str(container.get("image", "")), **_program(container)}
    return {**program, "env": ours} if ours else program


def difference(pod: Object, job: Object) -> str:
    """What a Pod executes other than the template of its Job says, such as "image 'b' instead of
    'a'". Of a Pod that is gone, and of volumes, it is only known that they differ.
    """
    own, wanted = program_of(spec_of(pod)), program_of(template_spec_of(job))
    if not own or not wanted:
        return "something else"
    found = []
    if plain_image(own["image"]) != plain_image(wanted["image"]):
        images = [repr(one_line(one["image"], limit=200)) for one in (own, wanted)]
        found.append(f"image {' instead of '.join(images)}")
    for field in _PROGRAM_FIELDS:
        if own.get(field) != wanted.get(field):  # arguments may contain what is secret
            shown = (
                f" {one_line(str(own[field]), limit=100)}"
                if field == "command" and own.get(field)
                else ""
            )
            found.append(f"another {field}{shown}")
    given, expected = _environment(own), _environment(wanted)
    changed = {
        str(one[0]) for one in (*given, *expected) if (one in given) is not (one in expected)
    }
    if changed:
        found.append(f"another value of {one_line(', '.join(sorted(changed)), limit=100)}")
    return " and ".join(found) or "other volumes"


def set_aside(pod: Object, job: Object) -> str:
    """What to say of a Pod that the Job controls and that does not execute what the Job says."""
    name, namespace = name_of(pod), str(job["metadata"].get("namespace", ""))
    command = shell_command("kubectl", "-n", namespace, "delete", "pod", name)
    return (
        f"Pod {name} does not execute what its Job says ({difference(pod, job)}), so nothing that it reports counts; a webhook or "
        "another client has changed or created it: let the webhook change Jobs as well, or name an image that it does not change "
        "(spec.image of the InferenceConfig, chart value images.runner), and recreate the run; if it is this Pod only, delete it, "
        f"which ends the attempt: {command}"
    )


def fix_of_image(pod: Object, job: Object) -> str:
    """What to do about the image of a Pod: it is that of the Job, but admission may have changed
    the Job."""
    annotations, image = annotations_of(job), program_of(spec_of(pod)).get("image", "")
    asked = str(annotations.get(wellknown.ANNOTATION_IMAGE) or image)
    if plain_image(asked) != plain_image(image):
        return f"the run asked for {one_line(asked, limit=200)!r}: fix the webhook or policy that has changed it"
    is_builtin = annotations.get(wellknown.ANNOTATION_RUNNER) == wellknown.RUNNER_BUILTIN
    return (
        "fix the chart value images.runner"
        if is_builtin
        else "fix spec.image in the InferenceConfig"
    )


def plain_image(image: object) -> str:
    """The image without the digest that an admission webhook adds to a tag."""
    name, at, _ = str(image).partition("@")
    return name if at and ":" in name.rpartition("/")[2] else str(image)


def _container(spec: Object) -> Object | None:
    return next((one for one in spec.get("containers") or [] if one.get("name") == CONTAINER), None)


def _program(container: Object) -> Object:
    return {field: container[field] for field in _PROGRAM_FIELDS if container.get(field)}


def _shape_of(spec: Object) -> str:
    container = _container(spec)
    if container is None:
        return ""
    shape = {
        "image": plain_image(container.get("image", "")),
        "program": _program(container),
        "environment": _environment(container),
        "mounts": _mounts(container, spec),
    }
    text = json.dumps(shape, sort_keys=True, separators=(",", ":"))
    return sys.intern(hashlib.sha256(text.encode()).hexdigest()[:32])


def _environment(container: Object) -> list[list[object]]:
    found: list[list[object]] = []
    for variable in container.get("env") or []:
        name = str(variable.get("name", ""))
        if not name.startswith(_OUR_VARIABLES):
            continue
        source = (variable.get("valueFrom") or {}).get("fieldRef")
        found.append([name, source.get("fieldPath") if source else variable.get("value", "")])
    return found


def _mounts(container: Object, spec: Object) -> list[list[object]]:
    volumes = {volume.get("name"): volume for volume in spec.get("volumes") or []}
    found: list[list[object]] = []
    for mount in container.get("volumeMounts") or []:
        path = str(mount.get("mountPath", ""))
        if not any(path == ours or path.startswith(f"{ours}/") for ours in _OUR_MOUNTS):
            continue
        volume = volumes.get(mount.get("name")) or {}
        sources = {
            kind: {key: value for key, value in source.items() if key != "defaultMode"}
            for kind, source in volume.items()
            if isinstance(source, dict)
        }
        found.append([path, mount.get("subPath", ""), bool(mount.get("readOnly")), sources])
    return sorted(found, key=lambda one: str(one[0]))
