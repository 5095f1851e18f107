"""What the shim keeps of a config: its metadata, its status, and what is wrong with its spec.

Free-form storage objects take up to 25 times their size as parsed JSON, so they are checked when they arrive and not kept.
What depends on a setting, such as the service account, is left to the reader. Pure.
"""

from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

from inferrun import wellknown
from inferrun.kube.objects import Object
from inferrun.resources import InferenceConfig, parse_config
from inferrun.resources.problems import Problem
from inferrun.resources.validation import config_problems, config_warnings, parse_problems

_DIGEST: Final = "digest"
_KEPT_METADATA: Final = ("name", "namespace", "uid", "resourceVersion", "generation", "deletionTimestamp")
_KEPT_ANNOTATIONS: Final = (wellknown.ANNOTATION_PAUSED,)


@dataclass(frozen=True, slots=True)
class ConfigDigest:
    """The first problems of a config, and what it names that an installation may not allow."""

    problems: tuple[Problem, ...] = ()
    service_account_name: str | None = None
    image: str | None = None
    warnings: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: InferenceConfig) -> "ConfigDigest":
        """The digest of a config that could be parsed."""
        return cls(
            problems=config_problems(config),
            service_account_name=config.spec.service_account_name,
            image=config.spec.image,
            warnings=config_warnings(config),
        )


def digest_config(item: Object) -> Object:
    """The config for the cache of an informer."""
    metadata = {key: item["metadata"][key] for key in _KEPT_METADATA if key in item["metadata"]}
    annotations = item["metadata"].get("annotations") or {}
    metadata["annotations"] = {key: annotations[key] for key in _KEPT_ANNOTATIONS if key in annotations}
    try:
        digest = ConfigDigest.of(parse_config({key: value for key, value in item.items() if key != "status"}))
    except ValidationError as error:
        digest = ConfigDigest(parse_problems(error))
    return {"metadata": metadata, "status": item.get("status") or {}, _DIGEST: digest}


def digest_of(cached: Object) -> ConfigDigest:
    found: ConfigDigest = cached[_DIGEST]
    return found
