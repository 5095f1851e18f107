"""URLs as requests need them."""

import pytest

from runner.http1.target import target_of


def test_a_request_has_host_headers_and_length() -> None:
    head = target_of("http://models:8080/v2/models/a b/infer?x=1#y").head("POST", {"Accept": "*/*"}, length=3)
    assert head == (
        b"POST /v2/models/a%20b/infer?x=1 HTTP/1.1\r\nHost: models:8080\r\nAccept: */*\r\nContent-Length: 3\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("url", "host", "port", "shown"),
    [
        ("http://a/", "a", 80, "a"),
        ("https://a:443", "a", 443, "a"),
        ("https://a:8443/x", "a", 8443, "a:8443"),
        ("http://[fd00::1]:81/", "fd00::1", 81, "[fd00::1]:81"),
        ("http://bücher.example/", "xn--bcher-kva.example", 80, "xn--bcher-kva.example"),
    ],
)
def test_the_host_is_named_as_in_the_url(url: str, host: str, port: int, shown: str) -> None:
    target = target_of(url)
    assert (target.host, target.port, target.is_tls) == (host, port, url.startswith("https"))
    assert target.fixed == f"Host: {shown}\r\n"


def test_user_information_becomes_basic_authentication() -> None:
    assert target_of("http://user:p%40ss@a/").fixed == "Host: a\r\nAuthorization: Basic dXNlcjpwQHNz\r\n"


@pytest.mark.parametrize("url", ["ftp://a/", "a:80", "http:///x", "http://a:99999/", "http://a b/", "http://a\x00/"])
def test_what_is_no_url_is_rejected(url: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        target_of(url)


def test_a_line_break_cannot_add_a_header() -> None:
    with pytest.raises(ValueError, match="line break"):
        target_of("http://a/").head("GET", {"X": "1\r\nY: 2"}, length=None)
    assert b"\r\nY" not in target_of("http://a/%0d%0aY: 2").head("GET", {}, length=None)
