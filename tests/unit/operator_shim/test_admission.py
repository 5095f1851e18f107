"""Runs of a namespace are launched a few at a time, and are active up to a limit."""

import pytest

from inferrun.kube.informer import Key
from inferrun.kube.objects import Object
from operator_shim.admission import Admission, Admitted


class Stage:
    def __init__(self, *, limit: int = 0, pace: int = 2) -> None:
        self.limit = limit
        self.resumed: list[str] = []
        self.admission = Admission(limit=lambda: self.limit, resume=lambda key: self.resumed.append(key[1]), pace=pace)

    def ask(self, name: str, *, namespace: str = "a") -> Admitted:
        return self.admission.ask((namespace, name), item(name))

    def observe(self, name: str, *, reason: str = "JobCreated", phase: str = "Pending", job: str = "job") -> None:
        self.admission.observe(key(name), item(name, reason=reason, phase=phase, job=job))

    def taken_resumed(self) -> list[str]:
        resumed, self.resumed = self.resumed, []
        return resumed


def key(name: str) -> Key:
    return "a", name


def item(name: str, *, reason: str = "", phase: str = "", job: str = "") -> Object:
    status: Object = {"phase": phase, "reason": reason, "jobStatus": {"uid": job}} if phase else {}
    return {"metadata": {"uid": name, "name": name}, "status": status}


def test_a_few_runs_are_launched_at_a_time_and_each_result_admits_the_next() -> None:
    stage = Stage()
    assert [stage.ask(name) for name in "1234"] == [Admitted.NOW, Admitted.NOW, Admitted.SOON, Admitted.SOON]
    stage.observe("1")
    assert stage.taken_resumed() == ["3"]
    assert stage.ask("3") is Admitted.NOW
    stage.admission.finish_launch(key("2"), "2")
    assert stage.taken_resumed() == ["4"]


def test_a_run_that_waits_for_the_launches_before_it_is_known_until_it_is_launched() -> None:
    stage = Stage(pace=1)
    for name in "12":
        stage.ask(name)
    assert [stage.admission.is_next(key(name)) for name in "12"] == [False, True]
    stage.observe("1")
    stage.ask("2")
    assert not stage.admission.is_next(key("2"))


def test_another_namespace_has_its_own_turn() -> None:
    stage = Stage(limit=2)
    for name in "123":
        stage.ask(name)
    assert stage.ask("1", namespace="b") is Admitted.NOW


def test_a_status_that_the_shim_wrote_does_not_end_a_launch() -> None:
    stage = Stage(pace=1)
    stage.ask("1")
    stage.ask("2")
    stage.observe("1", reason="Accepted", job="")
    assert stage.taken_resumed() == []


def test_the_others_do_not_wait_for_a_run_that_another_shim_has_launched() -> None:
    """Two shims run during an upgrade."""
    stage = Stage(pace=1)
    assert [stage.ask(name) for name in "1234"] == [Admitted.NOW, *[Admitted.SOON] * 3]
    stage.observe("2")
    stage.observe("1")
    assert stage.taken_resumed() == ["3"]
    stage.observe("3")  # launched by the other one before it could ask
    assert stage.taken_resumed() == ["4"]


def test_a_run_that_asks_twice_is_admitted_once() -> None:
    stage = Stage(pace=1)
    assert stage.ask("1") is Admitted.NOW
    assert stage.ask("1") is Admitted.NOW
    assert stage.ask("2") is Admitted.SOON
    assert stage.ask("2") is Admitted.SOON
    stage.observe("1")
    assert stage.taken_resumed() == ["2"]


def test_a_waiting_run_whose_config_appears_is_launched_until_its_status_changes() -> None:
    stage = Stage(pace=1)
    waiting = item("1", phase="Pending", reason="ConfigNotFound")
    assert stage.admission.ask(key("1"), waiting) is Admitted.NOW
    assert stage.ask("2") is Admitted.SOON
    stage.admission.observe(key("1"), waiting)
    assert stage.taken_resumed() == []
    stage.observe("1")
    assert stage.taken_resumed() == ["2"]


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_active_runs_are_limited_and_the_first_to_wait_starts_when_one_ends(phase: str) -> None:
    stage = Stage(limit=2, pace=5)
    assert [stage.ask(name) for name in "1234"] == [Admitted.NOW, Admitted.NOW, Admitted.TOO_MANY, Admitted.TOO_MANY]
    assert stage.admission.has_too_many(key("3"))
    stage.observe("1")
    stage.observe("2")
    assert stage.taken_resumed() == []
    stage.observe("1", phase=phase)
    assert stage.taken_resumed() == ["3"]
    assert stage.ask("3") is Admitted.NOW
    assert not stage.admission.has_too_many(key("3"))
    assert stage.admission.has_too_many(key("4"))


def test_the_deletion_of_an_active_run_makes_room() -> None:
    stage = Stage(limit=1)
    stage.ask("1")
    stage.ask("2")
    stage.admission.forget(key("1"), "1")
    assert stage.taken_resumed() == ["2"]


def test_the_active_runs_of_an_earlier_process_count() -> None:
    stage = Stage(limit=1)
    stage.observe("old")
    assert stage.ask("1") is Admitted.TOO_MANY
    assert stage.admission.ask(key("old"), item("old", phase="Pending", reason="JobCreated")) is Admitted.NOW


def test_nothing_is_remembered_of_runs_that_are_gone() -> None:
    stage = Stage(limit=1)
    for name in "123":
        stage.ask(name)
    for name in "123":
        stage.admission.forget(key(name), name)
    assert stage.admission._namespaces == {}
