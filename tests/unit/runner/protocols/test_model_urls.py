"""The URL that is derived from `modelUrl`."""

import pytest

from inferrun.plugins import ContractError
from inferrun_runner.protocols.model_urls import infer_url, protocol_in, without_end

WHOLE = "http://iris.kserve-test.svc.cluster.local/v2/models/iris/infer"


@pytest.mark.parametrize(
    ("model_url", "url"),
    [
        ("iris.kserve-test.svc.cluster.local/v2/models/iris/infer", WHOLE),
        (WHOLE, WHOLE),
        (f" {WHOLE}\n", WHOLE),
        ("iris.kserve-test.svc.cluster.local", WHOLE),
        ("http://iris.kserve-test.svc.cluster.local/", WHOLE),
        ("iris.kserve-test.svc.cluster.local/v2", WHOLE),
        ("iris.kserve-test.svc.cluster.local/v2/models", WHOLE),
        ("iris.kserve-test.svc.cluster.local/v2/models/iris/", WHOLE),
        ("127.0.0.1:8080", "http://127.0.0.1:8080/v2/models/iris/infer"),
        ("https://gate/serving/ns/iris", "https://gate/serving/ns/iris/v2/models/iris/infer"),
        ("gate/v2/models/iris/versions/3", "http://gate/v2/models/iris/versions/3/infer"),
        ("gate/v2/models/iris?key=1", "http://gate/v2/models/iris/infer?key=1"),
    ],
)
def test_every_form_of_a_url_leads_to_the_infer_path(model_url: str, url: str) -> None:
    assert infer_url(model_url, "iris") == url


def test_the_model_in_the_url_takes_precedence_over_the_name() -> None:
    assert (
        infer_url("ttm/v2/models/granite/infer", "sklearn-iris")
        == "http://ttm/v2/models/granite/infer"
    )


def test_a_name_is_quoted_in_the_path() -> None:
    assert infer_url("host", "a/b c") == "http://host/v2/models/a%2Fb%20c/infer"


@pytest.mark.parametrize(
    ("model_url", "model_name", "field", "allowed"),
    [
        ("", "iris", "kserve.modelUrl", "required"),
        ("  ", "iris", "kserve.modelUrl", "required"),
        ("grpc://host", "iris", "kserve.modelUrl", "http or https"),
        ("http://", "iris", "kserve.modelUrl", "http or https"),
        ("host/v1/models/iris:predict", "iris", "kserve.modelUrl", "/v2/models/"),
        ("host", "", "kserve.modelName", "required"),
        ("http://[::1/v2", "iris", "kserve.modelUrl", "http or https"),
        ("http://host:notaport/v2", "iris", "kserve.modelUrl", "http or https"),
    ],
)
def test_an_invalid_url_is_reported_with_its_field(
    model_url: str, model_name: str, field: str, allowed: str
) -> None:
    with pytest.raises(ContractError) as rejected:
        infer_url(model_url, model_name)
    assert str(rejected.value).startswith(f"{field}:")
    assert allowed in str(rejected.value)


def test_the_metadata_url_is_the_infer_url_without_infer() -> None:
    assert without_end(WHOLE, "/infer") == WHOLE.removesuffix("/infer")


def test_a_model_that_is_called_rerank_does_not_show_the_protocol() -> None:
    assert protocol_in("host/v1/models/rerank:predict") == "v1"
    assert protocol_in("host/v1/rerank") == "openai"
