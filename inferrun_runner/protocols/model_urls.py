"""The URLs of a model server, derived from `modelUrl`. Pure.

The Krateo controller's users give the full URL, usually without a scheme
(`host/v2/models/iris/infer`). It is used as it is: the model in it may differ from `modelName`. A
base URL is extended by the protocol's path with `modelName`.
"""

from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

from inferrun.plugins import ContractError
from inferrun.text import public_url

OPENAI_PATHS: Final = (
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/responses",
    "/v1/moderations",
    "/v1/rerank",
    "/v1/score",
    "/v2/rerank",
    "/rerank",
)
"""The paths that a request of OpenAI's Batch API may name, and those of vLLM's further tasks."""

GENERATING: Final = {"/v1/chat/completions", "/v1/completions", "/v1/responses"}
"""Those whose answers are texts, which vary unless the request says otherwise."""

_FIELD: Final = "kserve.modelUrl"

_IN_PATHS: Final = {
    "v2": ("/v2/models/",),
    "openai": tuple(path for path in OPENAI_PATHS if path.startswith("/v1/")),
    "v1": ("/v1/models/", ":predict"),
}


def protocol_in(model_url: str) -> str:
    """Return the protocol that a URL shows; empty if it shows none."""
    path = parts_of(model_url).path
    return next(
        (name for name, known in _IN_PATHS.items() if any(one in path for one in known)), ""
    )


def parts_of(model_url: str) -> SplitResult:
    """Return the parts of a URL, which may lack its scheme. Raises ContractError with the field."""
    given = model_url.strip()
    if not given:
        raise ContractError(
            f"{_FIELD}: required; set spec.kserve.modelUrl in the InferenceConfig to the model server's URL"
        )
    try:
        parts = urlsplit(given if "://" in given else f"http://{given}")
        is_valid = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ContractError(
            f"{_FIELD}: must be the http or https URL of a model server, got {public_url(model_url)!r}"
        )
    return parts._replace(path=parts.path.rstrip("/"), fragment="")


def infer_url(model_url: str, model_name: str) -> str:
    """Return the URL of V2's infer endpoint. Raises ContractError with the field."""
    parts = parts_of(model_url)
    path = parts.path
    if path.endswith((":predict", ":explain")):
        raise ContractError(
            f"{_FIELD}: {public_url(model_url)!r} is a URL of protocol v1; allowed: the server's base URL or "
            "…/v2/models/<model>/infer"
        )
    if "/v2/models/" not in path and not path.endswith("/infer"):
        path = f"{path.removesuffix('/models').removesuffix('/v2')}/v2/models/{_quoted(model_name, version=2)}"
    return parts._replace(path=f"{path.removesuffix('/infer')}/infer").geturl()


def predict_url(model_url: str, model_name: str) -> str:
    """Return the URL of V1's predict endpoint. Raises ContractError with the field."""
    parts = parts_of(model_url)
    path = parts.path
    if path.endswith((":explain", "/infer")) or "/v2/models/" in path:
        raise ContractError(
            f"{_FIELD}: a URL of another protocol; allowed: the server's base URL or …/v1/models/<model>:predict"
        )
    if "/v1/models/" not in path and not path.endswith(":predict"):
        path = f"{path.removesuffix('/models').removesuffix('/v1')}/v1/models/{_quoted(model_name, version=1)}"
    return parts._replace(path=f"{path.removesuffix(':predict')}:predict").geturl()


def base_url(model_url: str) -> str:
    """Return the URL of a server with OpenAI's API, without `/v1` or a path of the API. Raises
    ContractError with the field."""
    parts = parts_of(model_url)
    path = parts.path
    for known in OPENAI_PATHS:
        path = path.removesuffix(known)
    return parts._replace(path=path.removesuffix("/v1"), query="").geturl()


def description_url(protocol: str, model_url: str, model_name: str) -> str:
    """Return the URL of what a server says about the model: its metadata, its status, or the list
    of models.

    Raises ContractError.
    """
    if protocol == "openai":
        return f"{base_url(model_url)}/v1/models"
    if protocol == "v1":
        return without_end(predict_url(model_url, model_name), ":predict")
    return without_end(infer_url(model_url, model_name), "/infer")


def without_end(url: str, end: str) -> str:
    """Return a URL without the end of its path."""
    parts = urlsplit(url)
    return parts._replace(path=parts.path.removesuffix(end)).geturl()


def server_url(url: str) -> str:
    """Return the URL of a V2 server's metadata; empty if the path of the infer URL is of another
    form."""
    parts = urlsplit(url)
    base, found, _ = parts.path.partition("/v2/models/")
    return parts._replace(path=f"{base}/v2").geturl() if found else ""


def _quoted(model_name: str, *, version: int) -> str:
    if not model_name:
        raise ContractError(
            f"kserve.modelName: required if kserve.modelUrl is the server's base URL without /v{version}/models/<model>"
        )
    return quote(model_name, safe="")
