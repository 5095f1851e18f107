"""Lines in the usual form are read in a fast way. It must say what the thorough one says."""

import random

from inferrun_runner.protocols.openai import requests
from inferrun_runner.protocols.openai.requests import NotARequest, parse_any_request, parse_request

LINE = (
    b'{"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": '
    b'{"model": "m", "messages": [{"role": "user", "content": "caf\\u00e9 \\"model\\" stream"}], '
    b'"stream": false, "seed": 18446744073709551617}}'
)
PIECES = (
    *(bytes([sign]) for sign in b'"\\{}[],: \t\n0-'),
    b'"model"', b'"model": "x",', b'"model": 5,', b'"model": null,', b'"a\\"model": 1,', b'"mo\\u0064el": 1,',
    b'"stream": true,', b'"stream": false,', b'"stream": 0,', b'"stream": null,', b'"str\\u0065am": true,',
    b'"body": {},', b'"url": "/v1/embeddings",', b'"custom_id": "b",', b'"method": "GET",', b'"model": "\\\\",',
    b"\\u006d", b"\\ud800", b"NaN", b"1e999", b"null", b"false", b"\xff", b"\xef\xbb\xbf", "é“".encode(),
    b"[" * 70 + b"]" * 70, b"[" * 2000 + b"]" * 2000, b'{"model": "n", "stream": true},',
)  # fmt: skip
"""What a line of another form has, or one that is not valid."""

GENERATED = 100_000
NAME = 'n"ü'


def test_the_fast_way_says_what_the_thorough_one_does() -> None:
    chance = random.Random(1)  # noqa: S311  not for security
    taken = refused = 0
    for _ in range(GENERATED):
        line, model = varied(chance), chance.choice(("", NAME))
        fast = requests._usual_request(line, model=model)
        assert fast in (None, thorough(line, model)), line
        taken += fast is not None
        refused += fast is None
    assert taken > GENERATED / 5
    assert refused > GENERATED / 4


def test_a_line_as_clients_write_it_is_read_in_the_fast_way() -> None:
    assert requests._usual_request(LINE, model=NAME) == parse_any_request(LINE, model=NAME)
    assert parse_request(LINE, model="")[1] == LINE[LINE.index(b'{"model"') : -1]


def thorough(line: bytes, model: str) -> tuple[str, bytes] | None:
    try:
        return parse_any_request(line, model=model)
    except NotARequest:
        return None


def varied(chance: random.Random) -> bytes:
    """The line, changed up to three times: mostly where a member may be."""
    line = LINE
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        places = [at + 1 for at, sign in enumerate(line) if sign in b"{,"]
        is_member = bool(places) and chance.random() < 0.6
        at = chance.choice(places) if is_member else chance.randrange(len(line) + 1)
        piece, length = chance.choice(
            ((chance.choice(PIECES), chance.randrange(2)), (b"", chance.randrange(1, 12)))
        )
        line = line[:at] + piece + line[at + length :]
    return line
