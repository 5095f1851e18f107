"""The operator's allow-lists for service accounts and images."""

import pytest

from control.allowed import Allowed
from inferrun.resources.validation import describe
from inferrun.run_defaults import Defaults
from tests.unit.objects import config

RUNNER = "example.com/inferrun/runner:1"


def allowed(*images: str, accounts: tuple[str, ...] = ()) -> Allowed:
    return Allowed(service_accounts=accounts, images=images, runner_image=RUNNER)


def test_a_service_account_must_be_listed() -> None:
    named = config(serviceAccountName="runner")
    assert allowed(accounts=("runner",)).problems(named) == ()
    assert describe(allowed().problems(named)) == (
        'spec.serviceAccountName is "runner"; allowed in this installation: none (setting allowedServiceAccounts)'
    )


def test_the_installations_own_account_is_allowed() -> None:
    found = Allowed.read(Defaults(allowed_service_accounts=("a",)), runner_account="own")
    assert found.service_accounts == ("a", "own")
    assert Allowed.read(Defaults(), runner_account="").service_accounts == ()


@pytest.mark.parametrize("image", ["example.com/team/a:1", "example.com/team/deep/b@sha256:00", RUNNER, None])
def test_an_image_that_matches_a_pattern_and_the_default_runner_are_allowed(image: str | None) -> None:
    assert allowed("example.com/team/*", "other.example/x:1").problems(config(image=image)) == ()


@pytest.mark.parametrize(
    "image",
    ["example.com/team", "example.com/teamster/a:1", "evil.example/example.com/team/a:1", "EXAMPLE.com/team/a:1", "x"],
)
def test_any_other_image_is_rejected_with_the_list(image: str) -> None:
    (problem,) = allowed("example.com/team/*").problems(config(image=image))
    assert problem.field == "spec.image"
    assert "example.com/team/* (setting allowedImages)" in str(problem)


@pytest.mark.parametrize(("pattern", "image"), [("a?c", "abc"), ("[ab]", "a")])
def test_only_the_asterisk_is_special(pattern: str, image: str) -> None:
    assert allowed(pattern).problems(config(image=image)) != ()
    assert allowed(pattern).problems(config(image=pattern)) == ()


def test_without_a_list_every_image_is_allowed() -> None:
    assert allowed().problems(config(image="anything:1")) == ()


def test_a_launch_is_checked_by_the_same_rules() -> None:
    rules = allowed("example.com/*", accounts=("runner",))
    assert rules.problem_of_launch(service_account="", image="") == ""
    assert rules.problem_of_launch(service_account="runner", image="example.com/a") == ""
    text = rules.problem_of_launch(service_account="admin", image="evil")
    assert "spec.serviceAccountName" in text
    assert "spec.image" in text
