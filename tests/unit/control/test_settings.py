"""Settings of shim and worker: defaults, and errors that name the variable."""

from pathlib import Path

import pytest

from control.settings import ControlSettings
from inferrun.kube.namespaces import ALL, Namespaces


def test_an_empty_environment_gives_the_documented_defaults() -> None:
    found = ControlSettings.read({})
    assert (found.resync_seconds, found.workers, found.runner_account) == (300, 10, "")
    assert (found.watched, found.task_queue, found.release) == (ALL, "inferrun", "inferrun")
    assert (found.health_port, found.kubeconfig, found.ui_url) == (8080, None, "")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30", 30),
        (" 30 ", 30),
        ("", 300),
        ("45s", 45),
        ("1m", 60),
        ("1h", 3600),
        ("1h2m3s", 3723),
        ("90m", 5400),
    ],
)
def test_the_polling_interval_accepts_whole_seconds_and_durations(text: str, seconds: int) -> None:
    assert ControlSettings.read({"POLLING_INTERVAL": text}).resync_seconds == seconds


@pytest.mark.parametrize("text", ["0", "-5", "5x", "1m1h", "m", "1.5", "soon", "0s", "٣"])
def test_an_invalid_polling_interval_is_rejected_with_the_allowed_forms(text: str) -> None:
    with pytest.raises(
        ValueError,
        match=r"POLLING_INTERVAL is .* a whole number of seconds such as 300, or a duration such as 5m",
    ):
        ControlSettings.read({"POLLING_INTERVAL": text})


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5", "1e3", "²"])
def test_an_invalid_number_is_rejected_with_the_name_of_its_variable(text: str) -> None:
    with pytest.raises(
        ValueError, match=f"^MAX_RECONCILE_RATE is '{text}'; must be a whole number of at least 1"
    ):
        ControlSettings.read({"MAX_RECONCILE_RATE": text})


def test_an_empty_watch_namespace_means_all_namespaces() -> None:
    assert ControlSettings.read({"WATCH_NAMESPACE": ""}).watched == ALL
    assert ControlSettings.read({"WATCH_NAMESPACE": "models"}).watched == Namespaces(("models",))


def test_a_list_of_watched_namespaces_limits_the_front_door() -> None:
    listed = {"WATCH_NAMESPACE": "team-a, team-b,team-a"}
    assert ControlSettings.read(listed).watched == Namespaces(("team-a", "team-b"))
    assert ControlSettings.read(listed).served_namespaces == frozenset({"team-a", "team-b"})
    assert ControlSettings.read(
        {**listed, "FRONT_DOOR_NAMESPACES": "team-b,team-c"}
    ).served_namespaces == frozenset({"team-b"})
    assert ControlSettings.read({"FRONT_DOOR_NAMESPACES": "team-b"}).served_namespaces == frozenset(
        {"team-b"}
    )
    assert ControlSettings.read({}).served_namespaces is None


@pytest.mark.parametrize(
    "text",
    ["Models", "a b", "a;b", "-a", "a.b", "x" * 64, ",".join(f"n{number}" for number in range(31))],
)
def test_an_invalid_list_of_namespaces_is_rejected_with_the_name_of_the_variable(text: str) -> None:
    with pytest.raises(ValueError, match=r"^WATCH_NAMESPACE: "):
        ControlSettings.read({"WATCH_NAMESPACE": text})


def test_only_a_kubeconfig_named_for_this_product_is_used() -> None:
    assert ControlSettings.read({"KUBECONFIG": "/home/me/.kube/config"}).kubeconfig is None
    assert ControlSettings.read({"INFERRUN_KUBECONFIG": "/a"}).kubeconfig == Path("/a")


def test_a_process_is_identified_by_pod_or_host_name() -> None:
    assert ControlSettings.read({"POD_NAME": "worker-1", "HOSTNAME": "h"}).identity == "worker-1"
    assert ControlSettings.read({"HOSTNAME": "h"}).identity == "h"
    assert ControlSettings.read({}).identity == "local"
