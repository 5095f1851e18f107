"""Requests over a proxy: the address of the server is judged before the proxy is asked."""

import pytest

from inferrun.plugins import Limits
from inferrun_runner.network.exchanges import Refused
from inferrun_runner.network.http_client import open_client, whole_timeout


@pytest.mark.parametrize(
    ("url", "port"), [("https://10.96.0.1/api", 443), ("http://10.96.0.1/", 80)]
)
async def test_the_usual_port_of_the_scheme_is_judged(url: str, port: int) -> None:
    limits = Limits(refused_addresses=f"10.96.0.1:{port}", allowed_addresses="127.0.0.1")
    async with open_client(limits, timeout=whole_timeout(1)) as client:
        with pytest.raises(Refused, match="must not reach"):
            async with client.stream("GET", url, headers={}, proxy="http://127.0.0.1:1"):
                pass
