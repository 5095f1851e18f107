"""What the declarations of stores are made of: the model of a storage object, its forms and rules,
and how one is read. Pure.

A store is declared once, as the model of the object under its label. The definition of
`InferenceConfig`, the status of a config, the runner, the reader of results and the reference are
derived from it. A plug-in declares its store in the same way.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar

from pydantic import (
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Strict,
    ValidationError,
    model_validator,
)
from pydantic_core import CoreSchema, core_schema

from inferrun.fields.problems import (
    MAX_PROBLEMS,
    Problem,
    describe,
    invalid,
    parse_problems,
    unknown_keys,
)
from inferrun.fields.resource_model import ResourceModel

End = Literal["input", "output"]

CLAIM_KEY: Final = "claimName"
"""In a storage object: the PersistentVolumeClaim that is mounted for it."""

CREDENTIALS_KEY: Final = "credentialsRef"
SECRET_KEYS: Final = ((CREDENTIALS_KEY,), ("api", "endpointRef"))
"""Where a storage object may name the Secret that is mounted for it. A plug-in declares in this way
what it needs."""

Flag = Annotated[bool, Strict()]
"""True or false: neither a text nor a number."""


@dataclass(frozen=True, slots=True)
class OnlyFor:
    """The mark of a member that has a meaning at one end."""

    end: End


INPUT: Final = OnlyFor("input")
OUTPUT: Final = OnlyFor("output")

FORM: Final = "x-form"
"""In the JSON schema of a text: its form, of which the definitions make a rule of the API
server."""


@dataclass(frozen=True, kw_only=True)
class Form:
    """What a text must look like. Python and CEL read the regular expressions alike."""

    allowed: str
    matches: str = ""
    """What the whole text matches."""

    never: str = ""
    """What no part of the text matches."""

    # Any: pydantic's
    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:  # Any: JSON
        form = {"allowed": self.allowed, "matches": self.matches, "never": self.never}
        return {**handler(schema), FORM: form}

    def check(self, text: str) -> str:
        """Return the text. Raises ValueError with what is allowed."""
        is_matched = not self.matches or re.fullmatch(self.matches, text)
        if not is_matched or (self.never and re.search(self.never, text)):
            raise ValueError(self.allowed)
        return text


class StorageSpec(ResourceModel):
    """A storage object or a part of one. Null stands for a member that is not set."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, value: object) -> object:
        if not isinstance(value, Mapping) or None not in value.values():
            return value
        return {key: one for key, one in value.items() if one is not None}

    def problems(self, *, end: End, path: str) -> Iterator[Problem]:
        """What is wrong with the object at that end of a run, besides the types and forms of its
        members; it stands at `path`."""
        for name, field in type(self).model_fields.items():
            if name not in self.model_fields_set:
                continue
            value = getattr(self, name)
            own = next((one.end for one in field.metadata if isinstance(one, OnlyFor)), end)
            if own != end:
                yield invalid(f"{path}.{field.alias}", "set", f"is for an {own}")
            elif isinstance(value, StorageSpec):
                yield from value.problems(end=end, path=f"{path}.{field.alias}")


class Store(StorageSpec):
    """The object under a label."""

    label: ClassVar[str]

    ends: ClassVar[tuple[End, ...]] = ("input", "output")
    """Where the label may stand."""

    shared: ClassVar[tuple[End, ...]] = ()
    """Where several Pods can share the store: every Pod reads the same ranges, and each chunk is
    committed once."""

    keeps_results: ClassVar[bool] = False
    """Whether the committed results of a run can be read again."""

    is_in_schema: ClassVar[bool] = False
    """Whether the definition of `InferenceConfig` has the members, and they are checked whatever
    the image. Custom images may have used any other label in their own way before the built-in
    runner supported it."""

    placeholders: ClassVar[Mapping[tuple[str, ...], str]] = {}
    """The members that may have placeholders, and what each is: see
    `inferrun.resources.templates`."""

    @classmethod
    def misplaced(cls, end: End, path: str) -> Problem | None:
        """The problem of the label at that end, if it has no meaning there."""
        text = f"the label {cls.label} is for the {cls.ends[0]} only"
        return invalid(path, "set", text) if end not in cls.ends else None

    def problems(self, *, end: End, path: str) -> Iterator[Problem]:
        """What is wrong with the object at that end."""
        if misplaced := self.misplaced(end, path):
            yield misplaced
            return
        yield from super().problems(end=end, path=path)


class InvalidStorage(ValueError):
    """A storage object is invalid; `problems` are the first ones."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(islice(problems, MAX_PROBLEMS + 1))
        super().__init__(describe(self.problems))


Spec = TypeVar("Spec", bound=StorageSpec)


def read_storage(value: object, model: type[Spec], *, end: End, path: str) -> Spec:
    """Return the storage object at `path`. Raises InvalidStorage, also for members that do not
    exist."""
    problems = unknown_keys(value, model=model, path=path)
    try:
        spec = model.model_validate(value, by_alias=True, by_name=False)
    except ValidationError as error:
        raise InvalidStorage(chain(problems, parse_problems(error, path=path))) from error
    invalid_storage = InvalidStorage(chain(problems, spec.problems(end=end, path=path)))
    if invalid_storage.problems:
        raise invalid_storage
    return spec


SecretValues = Mapping[str, str]
"""The keys of a Secret that exist, with their values."""
