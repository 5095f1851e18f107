"""The operator's allow-lists for service accounts, images and placement."""

from typing import Any

import pytest

from control.trust.allowed import disallowed
from inferrun.fields.problems import Problem, describe
from inferrun.resources.placement import Placement
from inferrun.run_defaults import Defaults

RUNNER = "example.com/inferrun/runner:1"


def problems_of_image(image: str | None, *patterns: str) -> tuple[Problem, ...]:
    defaults = Defaults(allowed_images=patterns, runner_image=RUNNER)
    return disallowed(
        defaults, runner_account="", service_account=None, image=image, placement=Placement()
    )


def problems_of_account(account: str, *listed: str, own: str = "") -> tuple[Problem, ...]:
    defaults = Defaults(allowed_service_accounts=listed)
    return disallowed(
        defaults, runner_account=own, service_account=account, image=None, placement=Placement()
    )


def test_a_service_account_must_be_listed() -> None:
    assert problems_of_account("runner", "runner") == ()
    assert describe(problems_of_account("runner")) == (
        'spec.serviceAccountName is "runner"; allowed in this installation: none (setting allowedServiceAccounts)'
    )


def test_the_installations_own_account_is_allowed() -> None:
    assert (
        problems_of_account("own", "a", own="own") == problems_of_account("a", "a", own="own") == ()
    )
    assert "allowed in this installation: a, own (" in describe(
        problems_of_account("admin", "a", own="own")
    )


@pytest.mark.parametrize(
    "image", ["example.com/team/a:1", "example.com/team/deep/b@sha256:00", RUNNER, None]
)
def test_an_image_that_matches_a_pattern_and_the_default_runner_are_allowed(
    image: str | None,
) -> None:
    assert problems_of_image(image, "example.com/team/*", "other.example/x:1") == ()


@pytest.mark.parametrize(
    "image",
    [
        "example.com/team",
        "example.com/teamster/a:1",
        "evil.example/example.com/team/a:1",
        "EXAMPLE.com/team/a:1",
        "x",
    ],
)
def test_any_other_image_is_rejected_with_the_list(image: str) -> None:
    (problem,) = problems_of_image(image, "example.com/team/*")
    assert problem.field == "spec.image"
    assert "example.com/team/* (setting allowedImages)" in str(problem)


@pytest.mark.parametrize(("pattern", "image"), [("a?c", "abc"), ("[ab]", "a")])
def test_only_the_asterisk_is_special(pattern: str, image: str) -> None:
    assert problems_of_image(image, pattern) != ()
    assert problems_of_image(pattern, pattern) == ()


def test_without_a_list_every_image_is_allowed() -> None:
    assert problems_of_image("anything:1") == ()


def test_all_problems_are_found() -> None:
    defaults = Defaults(allowed_images=("example.com/*",), allowed_service_accounts=("runner",))
    urgent = Placement(priority_class_name="urgent")
    found = disallowed(
        defaults, runner_account="", service_account="admin", image="evil", placement=urgent
    )
    fields = ["spec.serviceAccountName", "spec.priorityClassName", "spec.image"]
    assert [problem.field for problem in found] == fields


def problems_of_placement(given: dict[str, Any], **settings: str) -> tuple[str, ...]:
    defaults, placement = Defaults.model_validate(settings), Placement.model_validate(given)
    found = disallowed(
        defaults, runner_account="", service_account=None, image=None, placement=placement
    )
    return tuple(map(str, found))


def selected(operator: str, *values: str) -> dict[str, Any]:
    """A preference, and a second term after an allowed one."""
    allowed = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    given = {"matchExpressions": [{"key": "pool", "operator": operator, "values": values}]}
    return {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [allowed, given]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "preference": given}
                ],
            }
        }
    }


def tolerated(**toleration: str) -> dict[str, Any]:
    return {"tolerations": [{"key": "pool", **toleration}]}


def spread(when: str) -> dict[str, Any]:
    return {
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when}
        ]
    }


@pytest.mark.parametrize(
    ("given", "field", "value", "setting"),
    [
        ({"nodeSelector": {"pool": "gpu"}}, "nodeSelector", "pool=gpu", "NodeLabels"),
        (selected("In", "gpu"), "affinity.nodeAffinity", "pool=gpu", "NodeLabels"),
        (selected("NotIn", "gpu"), "affinity.nodeAffinity", "pool=*", "NodeLabels"),
        (
            tolerated(value="gpu", effect="NoSchedule"),
            "tolerations",
            "pool=gpu:NoSchedule",
            "Tolerations",
        ),
        (spread("DoNotSchedule"), "topologySpreadConstraints", "zone=*", "NodeLabels"),
        ({"priorityClassName": "urgent"}, "priorityClassName", "urgent", "PriorityClasses"),
        ({"runtimeClassName": "fast"}, "runtimeClassName", "fast", "RuntimeClasses"),
    ],
    ids=str,
)
def test_nothing_about_the_placement_is_allowed_by_default(
    given: dict[str, Any], field: str, value: str, setting: str
) -> None:
    expected = (
        f'spec.{field} is "{value}"; allowed in this installation: none (setting allowed{setting})'
    )
    assert expected in problems_of_placement(given)


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        ({"nodeSelector": {"pool": "gpu"}}, {"allowedNodeLabels": "zone=*,pool=g*"}),
        (selected("In", "gpu", "spot"), {"allowedNodeLabels": "zone=a,pool=gpu,pool=spot"}),
        (selected("NotIn", "gpu"), {"allowedNodeLabels": "zone=a,pool=*"}),
        (
            tolerated(value="gpu", effect="NoSchedule"),
            {"allowedTolerations": "pool=gpu:NoSchedule"},
        ),
        (tolerated(operator="Exists"), {"allowedTolerations": "pool=*:*"}),
        (tolerated(effect="NoExecute"), {"allowedTolerations": "pool=:NoExecute"}),
        (spread("DoNotSchedule"), {"allowedNodeLabels": "zone=*"}),
        (spread("ScheduleAnyway"), {}),
        ({"priorityClassName": "low"}, {"allowedPriorityClasses": "other,low"}),
        ({"runtimeClassName": "gvisor"}, {"allowedRuntimeClasses": "gvisor"}),
        ({}, {}),
    ],
    ids=str,
)
def test_a_placement_that_the_operator_lists_is_allowed(
    given: dict[str, Any], settings: dict[str, str]
) -> None:
    assert problems_of_placement(given, **settings) == ()


@pytest.mark.parametrize(
    ("given", "settings"),
    [
        ({"nodeSelector": {"pool": "gpu", "zone": "b"}}, {"allowedNodeLabels": "pool=*,zone=a"}),
        ({"nodeSelector": {"pool-control": "gpu"}}, {"allowedNodeLabels": "pool=*"}),
        (selected("In", "gpu", "system"), {"allowedNodeLabels": "zone=a,pool=gpu"}),
        (selected("NotIn", "gpu"), {"allowedNodeLabels": "zone=a,pool=gpu"}),
        (selected("Exists"), {"allowedNodeLabels": "zone=a,pool=gpu,pool=spot"}),
        (selected("Gt", "1"), {"allowedNodeLabels": "zone=a,pool=1*"}),
        (
            tolerated(operator="Exists", effect="NoSchedule"),
            {"allowedTolerations": "pool=gpu:NoSchedule"},
        ),
        (tolerated(value="gpu"), {"allowedTolerations": "pool=gpu:NoSchedule"}),
        (tolerated(value="gpu", effect="NoExecute"), {"allowedTolerations": "pool=gpu:NoSchedule"}),
        (
            tolerated(value="gpu", effect="NoSchedule"),
            {"allowedTolerations": "pool-b=gpu:NoSchedule"},
        ),
        (spread("DoNotSchedule"), {"allowedNodeLabels": "zone=a"}),
        ({"priorityClassName": "low-but-not-quite"}, {"allowedPriorityClasses": "low,low*"}),
    ],
    ids=str,
)
def test_a_placement_that_is_wider_than_the_list_is_not_allowed(
    given: dict[str, Any], settings: dict[str, str]
) -> None:
    assert problems_of_placement(given, **settings) != ()
