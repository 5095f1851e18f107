"""The verdicts on storage objects of every kind, as the table of kinds has them, and the messages
about those that are invalid."""

from importlib.metadata import EntryPoint

import pytest

from inferrun import formats
from inferrun.plugins import RecordFormat
from inferrun.stores import STORES
from inferrun.stores.dataset import FORMATS
from tests.store_objects import COMPLETE, StoreObject, store_objects
from tests.store_verdicts import status_of

IMAGE = "example.com/mine:1"


def objects_of(end: str, label: str) -> list[StoreObject]:
    return [one for one in store_objects() if (one.end, one.label) == (end, label)]


def test_there_are_objects_for_each_end_of_each_store() -> None:
    assert COMPLETE.keys() == {
        (end, label) for label, store in STORES.items() for end in store.ends
    }
    assert len(store_objects()) > 800


@pytest.mark.parametrize(("end", "label"), [*COMPLETE, ("output", "http"), ("output", "run")])
def test_the_status_names_the_member_that_is_wrong(end: str, label: str) -> None:
    said = {str(one): (one, status_of(one)) for one in objects_of(end, label)}
    wrong = {
        title: text
        for title, (one, text) in said.items()
        if not (
            text.startswith(f"{end}.{label}.{one.field}".rstrip(".") + " ")
            if one.field is not None
            else text == ""
        )
    }
    assert said
    assert wrong == {}


def test_no_message_has_the_words_of_a_library_or_a_credential() -> None:
    said = " ".join(status_of(one) for one in store_objects())
    assert "constrained" not in said
    assert "Value error" not in said
    assert "c4nary" not in said


@pytest.mark.parametrize(
    ("end", "label", "member", "value", "message"),
    [
        (
            "input",
            "s3",
            "endpoint",
            "minio:9000",
            'input.s3.endpoint is "minio:9000"; must be the http or https URL of a server, such as http://minio.storage:9000',
        ),
        (
            "input",
            "sql",
            "key",
            [],
            'input.sql.key is "a list of 0"; must be the name of a column, at most 63 characters, or a list of',
        ),
    ],
)
def test_the_fix_is_that_of_the_member(
    end: str, label: str, member: str, value: object, message: str
) -> None:
    assert status_of(
        StoreObject("", end, label, {**COMPLETE[end, label], member: value})
    ).startswith(message)


def test_objects_for_another_image_are_checked_only_if_the_definition_has_their_members() -> None:
    for one in store_objects():
        said = status_of(one, image=IMAGE)
        assert said == "" or STORES[one.label].is_in_schema or not isinstance(one.value, dict), str(
            one
        )
    unknown = StoreObject("", "input", "file", {**COMPLETE["input", "file"], "format": "avro"})
    assert status_of(unknown, image=IMAGE) == ""


@pytest.mark.parametrize("point", formats.BUILT_IN, ids=lambda point: point.name)
def test_what_is_declared_of_a_format_is_what_it_can_do(point: EntryPoint) -> None:
    found: RecordFormat = point.load()
    declared, able = FORMATS[point.name], found.abilities
    assert declared.is_written == bool(found.results_suffix)
    assert declared.is_typed == bool(able.typed)
    assert bool(declared.compressions) == (able.with_compression is not None)
    for name in declared.compressions:
        assert able.with_compression is not None
        able.with_compression(name)
