"""The operator's allow-lists for service accounts and images."""

import pytest

from control.allowed import disallowed
from inferrun.resources.problems import Problem, describe
from inferrun.run_defaults import Defaults

RUNNER = "example.com/inferrun/runner:1"


def problems_of_image(image: str | None, *patterns: str) -> tuple[Problem, ...]:
    defaults = Defaults(allowed_images=patterns, runner_image=RUNNER)
    return disallowed(defaults, runner_account="", service_account=None, image=image)


def problems_of_account(account: str, *listed: str, own: str = "") -> tuple[Problem, ...]:
    defaults = Defaults(allowed_service_accounts=listed)
    return disallowed(defaults, runner_account=own, service_account=account, image=None)


def test_a_service_account_must_be_listed() -> None:
    assert problems_of_account("runner", "runner") == ()
    assert describe(problems_of_account("runner")) == (
        'spec.serviceAccountName is "runner"; allowed in this installation: none (setting allowedServiceAccounts)'
    )


def test_the_installations_own_account_is_allowed() -> None:
    assert problems_of_account("own", "a", own="own") == problems_of_account("a", "a", own="own") == ()
    assert "allowed in this installation: a, own (" in describe(problems_of_account("admin", "a", own="own"))


@pytest.mark.parametrize("image", ["example.com/team/a:1", "example.com/team/deep/b@sha256:00", RUNNER, None])
def test_an_image_that_matches_a_pattern_and_the_default_runner_are_allowed(image: str | None) -> None:
    assert problems_of_image(image, "example.com/team/*", "other.example/x:1") == ()


@pytest.mark.parametrize(
    "image",
    ["example.com/team", "example.com/teamster/a:1", "evil.example/example.com/team/a:1", "EXAMPLE.com/team/a:1", "x"],
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


def test_both_problems_are_found() -> None:
    defaults = Defaults(allowed_images=("example.com/*",), allowed_service_accounts=("runner",))
    found = disallowed(defaults, runner_account="", service_account="admin", image="evil")
    assert [problem.field for problem in found] == ["spec.serviceAccountName", "spec.image"]
