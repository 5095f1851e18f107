"""What a model server's answer to a probe says about its readiness."""

import pytest

from inferrun.contract import Model
from inferrun.plugins import ContractError
from inferrun_runner.protocols.readiness import judge, probe_url

V2 = Model(model_url="http://a/v2/models/iris/infer", model_name="iris", protocol_version="v2")
V1 = Model(model_url="http://a/v1/models/iris:predict", model_name="iris", protocol_version="v1")
OPENAI = Model(model_url="http://a/prefix/v1", model_name="tiny", protocol_version="openai")


@pytest.mark.parametrize(
    ("model", "url"),
    [
        (V2, "http://a/v2/models/iris/ready"),
        (
            Model(model_url="a:8080", model_name="my model"),
            "http://a:8080/v2/models/my%20model/ready",
        ),
        (V1, "http://a/v1/models/iris"),
        (V1.model_copy(update={"model_url": "a:8080"}), "http://a:8080/v1/models/iris"),
        (
            V1.model_copy(update={"model_url": "http://a/prefix/v1"}),
            "http://a/prefix/v1/models/iris",
        ),
        (OPENAI, "http://a/prefix/v1/models"),
    ],
)
def test_the_model_itself_is_asked(model: Model, url: str) -> None:
    assert probe_url(model) == url


def test_a_url_that_cannot_be_probed_is_an_invalid_contract() -> None:
    with pytest.raises(ContractError):
        probe_url(Model(model_url="ftp://a"))


@pytest.mark.parametrize(
    ("model", "status", "body", "is_ready"),
    [
        (V2, 200, b"", True),
        (V2, 200, b'{"name": "iris", "ready": true}', True),
        (V2, 200, b'{"name": "iris", "ready": false}', False),
        (V2, 200, b'{"name": "iris", "ready": "False"}', False),
        (V2, 400, b"", False),
        (V2, 404, b"", False),
        (V2, 500, b"", False),
        (V2, 502, b"", False),
        (V2, 503, b"", False),
        (V2, 504, b"", False),
        (V2, 401, b"", True),
        (V2, 403, b"", True),
        (V2, 429, b"", True),
        (V1, 200, b'{"name": "iris", "ready": "True"}', True),
        (V1, 200, b'{"name": "iris", "ready": "False"}', False),
        (V1, 404, b"", False),
        (OPENAI, 200, b'{"data": [{"id": "tiny"}]}', True),
        (OPENAI, 200, b'{"data": [{"id": "other"}]}', False),
        # NVIDIA Dynamo 1.6.1 before its first worker
        (OPENAI, 200, b'{"object": "list", "data": []}', False),
        (OPENAI.model_copy(update={"model_name": ""}), 200, b'{"data": []}', True),
        (OPENAI, 200, b'{"models": []}', True),  # a list of another form
        (OPENAI, 200, b'{"data": [{"id": "tiny:latest"}]}', True),
        (OPENAI, 200, b'{"data": [{"id": "tiny:7b"}]}', False),
        (OPENAI, 404, b"", True),
        (OPENAI, 503, b"", False),
        (OPENAI, 401, b"", True),
    ],
)
def test_an_answer_is_judged_by_what_it_says_about_the_model(
    model: Model, status: int, body: bytes, *, is_ready: bool
) -> None:
    finding = judge(model, status=status, body=body)
    assert finding.is_ready is is_ready
    assert finding.seen
