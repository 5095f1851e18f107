"""The files with answers whose chunk is not committed yet: a digest, and a line per answer. Pure."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import orjson

from inferrun.plugins import NO_USAGE, CustomId, TokenUsage


@dataclass(frozen=True, slots=True)
class SavedAnswer:
    """The prediction of a record, as a JSON text on one line."""

    index: int
    prediction: bytes
    usage: TokenUsage = NO_USAGE
    """The tokens of the request; of one with several records, the first has them."""

    custom_id: CustomId = None


def dump_answers(answers: Iterable[SavedAnswer]) -> bytes:
    """Return the content of a file: a digest, and a line per answer."""
    lines = b"".join(
        b"%d\t%d\t%d\t%d\t%b\t%b\n"
        % (
            one.index,
            one.usage.prompt_tokens,
            one.usage.completion_tokens,
            one.usage.total_tokens,
            orjson.dumps(one.custom_id),
            one.prediction,
        )
        for one in answers
    )
    return b"%b\n%b" % (hashlib.sha256(lines).hexdigest().encode(), lines)


def load_answers(content: bytes) -> Iterator[SavedAnswer]:
    """Yield the answers of a file; none if it is not whole."""
    digest, _, lines = content.partition(b"\n")
    if hashlib.sha256(lines).hexdigest().encode() != digest:
        return
    for line in lines.split(b"\n")[:-1]:
        index, prompt, completion, total, custom_id, prediction = line.split(b"\t", 5)
        usage = TokenUsage(
            prompt_tokens=int(prompt), completion_tokens=int(completion), total_tokens=int(total)
        )
        yield SavedAnswer(int(index), prediction, usage, orjson.loads(custom_id))
