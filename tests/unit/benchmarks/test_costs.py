"""The page about the costs of a run compares round by round, and says what was not measured."""

from collections import Counter

from campaigns.benchmarks.burst.beside import Findings
from campaigns.benchmarks.burst.costs import page
from campaigns.benchmarks.burst.krateo import Turn
from campaigns.benchmarks.burst.passes import Burst, Life, Pass
from campaigns.benchmarks.burst.usage import Usage


def life(*, seconds: float, latency: float, cpu: dict[str, float], requests: int = 1) -> Life:
    """Sixty lives that took ten seconds."""
    counted = Counter({"POST jobs": 60 * requests})
    calls = Counter({"StartWorkflowExecution": 60})
    to_job = Usage({name: used / 2 for name, used in cpu.items()}, counted, calls, seconds)
    return Life(Burst((latency,) * 60, seconds), to_job, Usage(cpu, counted, calls, 10.0))


def one_pass(*, seconds: float) -> Pass:
    """A round of the product."""
    cpu = {"kube-apiserver": 6.0, "worker": 3.0}
    return Pass(
        life=life(seconds=seconds, latency=1.0, cpu=cpu, requests=2),
        single=(0.03,),
        baseline=life(seconds=1.0, latency=0.1, cpu=cpu),
        baseline_single=(0.01,),
        ends=(),
        job_ends=(),
        baseline_job_ends=(),
        events=(),
    )


IDLE = Usage({"kube-apiserver": 0.6, "worker": 0.3}, seconds=10.0)
TURN = Turn(life(seconds=1.5, latency=0.8, cpu={"kube-apiserver": 3.0, "krateo": 3.0}), (0.04,))


def row(text: str, title: str) -> list[str]:
    """The cells of a row without its title."""
    line = next(line for line in text.splitlines() if line.startswith(f"| {title} |"))
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_the_product_is_compared_with_krateos_controller_in_the_same_round() -> None:
    text = page(Findings([one_pass(seconds=1.0), one_pass(seconds=2.0)], [TURN] * 2, [IDLE] * 2))
    rate = row(text, "Jobs per second")
    assert rate[2:] == ["1.12 (0.75 to 1.50)", "at least 1.1"]
    assert row(text, "from apply to Job, median, s")[3] == "at most 0.9 (missed)"
    assert row(text, "CPU of a whole life, ms a run")[:2] == [
        "150.0 (150.0 to 150.0)",
        "100.0 (100.0 to 100.0)",
    ]
    assert row(text, "worker") == ["25.0", "50.0", "5.0", "0.0", "0.0", "50.0"]
    assert row(text, "POST jobs") == ["2.00", "2.00", "1.00", "1.00", "1.00"]
    assert row(text, "Temporal, all") == ["1.00", "1.00", "", "", ""]


def test_without_krateos_controller_the_page_says_that_it_was_not_measured() -> None:
    text = page(Findings([one_pass(seconds=1.0)], [], [IDLE]))
    assert row(text, "Jobs per second") == ["60.0", "not measured", "", ""]
    assert row(text, "worker")[3:5] == ["not measured", "not measured"]
