"""Turns: a few members of each group at a time."""

from inferrun.control.turns import Turns


class Stage:
    """Members are written as group/name; those that are resumed ask again at once."""

    def __init__(self, *, size: int) -> None:
        self.order: list[str] = []
        self.turns: Turns[str] = Turns(size=size, group=lambda key: key.partition("/")[0], resume=self.ask)

    def ask(self, key: str) -> None:
        if self.turns.take(key):
            self.order.append(key)


def test_members_beyond_the_size_wait_in_order() -> None:
    stage = Stage(size=2)
    for number in range(5):
        stage.ask(f"crowd/{number}")
    assert stage.order == ["crowd/0", "crowd/1"]
    stage.turns.leave("crowd/0")
    stage.turns.leave("crowd/1")
    assert stage.order == ["crowd/0", "crowd/1", "crowd/2", "crowd/3"]


def test_a_crowd_in_one_group_does_not_hold_up_another() -> None:
    stage = Stage(size=2)
    for number in range(100):
        stage.ask(f"crowd/{number}")
    stage.ask("quiet/1")
    assert stage.order[-1] == "quiet/1"


def test_whoever_asks_again_keeps_its_turn_and_takes_no_second_one() -> None:
    stage = Stage(size=2)
    for key in ("crowd/0", "crowd/0", "crowd/1", "crowd/2"):
        stage.ask(key)
    assert stage.order == ["crowd/0", "crowd/0", "crowd/1"]


def test_a_turn_that_is_not_taken_goes_to_the_next() -> None:
    resumed: list[str] = []
    turns: Turns[str] = Turns(size=1, group=lambda _: "crowd", resume=resumed.append)
    assert [turns.take(key) for key in ("a", "b", "c")] == [True, False, False]
    turns.leave("a")
    assert resumed == ["b"]
    turns.leave("b")  # it has nothing to do any more
    assert resumed == ["b", "c"]
    assert turns.take("c")


def test_whoever_leaves_without_a_turn_still_gets_its_own_later() -> None:
    stage = Stage(size=1)
    for key in ("crowd/0", "crowd/1"):
        stage.ask(key)
    stage.turns.leave("crowd/1")
    assert stage.order == ["crowd/0"]
    stage.turns.leave("crowd/0")
    assert stage.order == ["crowd/0", "crowd/1"]
