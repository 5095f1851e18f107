"""What the kubelet does for the Pod of a run, on this machine: volumes become files in a folder, and
paths in the environment point to them.

Only what the Jobs of runs contain is known here. What the machine lacks is collected, so that a user
hears of everything that is missing at once.
"""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from inferrun.client.errors import InvalidRequest
from inferrun.kube.objects import Object
from inferrun.launches.manifests import CONTRACT_PATH
from inferrun.launches.pod_mounts import DATA_PATH, ENDPOINTS_PATH

Keys = Mapping[str, bytes]
"""The values of a Secret or a ConfigMap by their keys."""

_PRIVATE: Final = 0o700
_USERS_OWN: Final = ("HOME",)
"""Variables of the container that stay as they are here: the clouds' own programs keep the identity
of the user below the home directory."""


@dataclass(frozen=True)
class Machine:
    """What stands for the objects of a cluster, by their names."""

    claims: Mapping[str, Path] = field(default_factory=dict)
    """The folders of claims."""

    secrets: Mapping[str, Keys] = field(default_factory=dict, repr=False)
    config_maps: Mapping[str, Keys] = field(default_factory=dict)


@dataclass(frozen=True)
class Container:
    """A process of the Pod: the arguments after `python`, and its environment."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    termination_log: Path


class LocalPod:
    """The Pod of a Job, in a folder of its own; `variables` are added to its environment."""

    def __init__(
        self,
        spec: Object,
        machine: Machine,
        *,
        root: Path,
        uid: str,
        variables: Mapping[str, str],
    ) -> None:
        self._spec = spec
        self._machine = machine
        self._root = root
        self._uid = uid
        self._variables = variables
        self._folders: dict[str, Path] = {}
        """The folders that are mounted as they are, by mount path."""

        self._missing: list[str] = []
        """What has to be given, and how."""

    @contextmanager
    def mounted(self) -> Iterator[Self]:
        """Write the volumes, and delete them afterwards, with the copies of Secrets in them. What
        a Pod before has left in the folder is deleted, too. Raises InvalidRequest with everything
        that the machine lacks.
        """
        shutil.rmtree(self._root, ignore_errors=True)
        try:
            self._root.mkdir(parents=True, mode=_PRIVATE)
            for volume in self._spec["volumes"]:
                for mount in self._mounts_of(volume["name"]):
                    self._mount(volume, mount)
            if self._missing:
                raise InvalidRequest(
                    "this machine lacks what the run needs", fix="\n".join(self._missing)
                )
            yield self
        finally:
            shutil.rmtree(self._root, ignore_errors=True)

    @property
    def init_containers(self) -> Sequence[Container]:
        return [self._container(one) for one in self._spec.get("initContainers", ())]

    def containers(self, *, shards: int) -> Sequence[Container]:
        """The container `inference`, once for each shard."""
        (one,) = self._spec["containers"]
        more = [{"JOB_COMPLETION_INDEX": str(at)} for at in range(shards)] if shards > 1 else [{}]
        return [self._container(one, **index) for index in more]

    def _mounts_of(self, volume: str) -> Iterator[Object]:
        containers = [*self._spec["containers"], *self._spec.get("initContainers", ())]
        found = {
            mount["mountPath"]: mount
            for container in containers
            for mount in container["volumeMounts"]
            if mount["name"] == volume
        }
        yield from found.values()

    def _at(self, path: str) -> Path:
        return self._root / path.lstrip("/")

    def _mount(self, volume: Object, mount: Object) -> None:
        place = self._at(mount["mountPath"])
        if claim := volume.get("persistentVolumeClaim"):
            self._mount_claim(claim["claimName"], mount["mountPath"])
            return
        files = dict(self._files_of(volume))
        if path := mount.get("subPath"):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(files[path])
            return
        place.mkdir(parents=True, exist_ok=True, mode=_PRIVATE)
        for name, content in files.items():
            file = place / name
            file.touch(mode=0o600)
            file.write_bytes(content)

    def _mount_claim(self, name: str, path: str) -> None:
        folder = self._machine.claims.get(name)
        if folder is None:
            self._lacks(f"claim {name!r}: give its folder with --claim {name}=FOLDER")
        elif not folder.is_dir():
            self._lacks(f"claim {name!r}: {folder} is not a folder; create it, or correct --claim")
        else:
            self._folders[path] = folder.resolve()

    def _files_of(self, volume: Object) -> Iterator[tuple[str, bytes]]:
        """The files of a volume, by their names in it."""
        if (secret := volume.get("secret")) is not None:
            yield from self._keys_of("Secret", secret["secretName"], secret)
        elif (config_map := volume.get("configMap")) is not None:
            yield from self._keys_of("ConfigMap", config_map["name"], config_map)
        for source in (volume.get("projected") or {}).get("sources", ()):
            if (secret := source.get("secret")) is not None:
                yield from self._keys_of("Secret", secret["name"], secret)
            elif token := source.get("serviceAccountToken"):
                self._lacks(
                    f"a token of a service account for {token['audience']!r}, which only a cluster "
                    "issues: remove the field that asks for it, and give --secret with credentials"
                )

    def _keys_of(self, kind: str, name: str, source: Object) -> Iterator[tuple[str, bytes]]:
        known = self._machine.secrets if kind == "Secret" else self._machine.config_maps
        items = {one["key"]: one["path"] for one in source.get("items", ())}
        found = known.get(name)
        if found is None:
            if not source.get("optional"):
                self._lacks(f"{kind} {name!r}: {_how_to_give(kind, name)}")
            return
        if absent := ", ".join(key for key in items if key not in found):
            if not source.get("optional"):
                self._lacks(f"{kind} {name!r} has no key {absent}: {_how_to_give(kind, name)}")
            return
        yield from ((items.get(key, key), found[key]) for key in items or found)

    def _lacks(self, text: str) -> None:
        if text not in self._missing:
            self._missing.append(text)

    def _container(self, container: Object, **more: str) -> Container:
        given = {
            one["name"]: self._here(one["value"]) if "value" in one else self._uid
            for one in container["env"]
            if one["name"] not in _USERS_OWN
        }
        folder = self._root / "-".join((container["name"], *more.values()))
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "termination-log"
        places = {
            "INFERRUN_CONTRACT": self._at(CONTRACT_PATH),
            "INFERRUN_INPUT_DIR": self._folders.get(f"{DATA_PATH}/input"),
            "INFERRUN_OUTPUT_DIR": self._folders.get(f"{DATA_PATH}/output"),
            "INFERRUN_ENDPOINTS_DIR": self._at(ENDPOINTS_PATH),
            "INFERRUN_TERMINATION_LOG": log,
            "INFERRUN_SPOOL_DIR": folder,
        }
        found = {name: str(place) for name, place in places.items() if place is not None}
        command = container.get("command") or ["python", "-m", "inferrun_runner"]
        return Container(
            tuple(command[1:]), {**os.environ, **given, **found, **self._variables, **more}, log
        )

    def _here(self, value: str) -> str:
        """A value of the environment, with the path of a mounted file as it is here."""
        is_mounted = value.startswith("/") and self._at(value).exists()
        return str(self._at(value)) if is_mounted else value


def _how_to_give(kind: str, name: str) -> str:
    if kind == "Secret":
        return f"give it with --secret {name}=FOLDER or --secret {name}=FILE.env, or its manifest with -f"
    return "give its manifest with -f"
