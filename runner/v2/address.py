"""Derives the URL of the infer endpoint from `modelUrl`. Pure.

The Krateo controller's users give the full URL, usually without a scheme (`host/v2/models/iris/infer`). It is used as it is: the
model in it may differ from `modelName`. A base URL is extended by the protocol's path with `modelName`.
"""

from urllib.parse import SplitResult, quote, urlsplit, urlunsplit

from inferrun.plugins import ContractError
from inferrun.text import public_url

_FIELD = "kserve.modelUrl"


def infer_url(model_url: str, model_name: str) -> str:
    """Return the URL of the infer endpoint. Raises ContractError with the field."""
    parts = _split(_with_scheme(model_url.strip()))
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ContractError(f"{_FIELD}: must be the http or https URL of a model server, got {public_url(model_url)!r}")
    path = parts.path.rstrip("/")
    if path.endswith((":predict", ":explain")):
        raise ContractError(
            f"{_FIELD}: {public_url(model_url)!r} is a URL of protocol v1; allowed: the server's base URL or "
            "…/v2/models/<model>/infer"
        )
    return urlunsplit((parts.scheme, parts.netloc, _infer_path(path, model_name), parts.query, ""))


def metadata_url(url: str) -> str:
    """Return the URL of the model's metadata."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.removesuffix("/infer"), parts.query, ""))


def server_url(url: str) -> str:
    """Return the URL of the server's metadata; empty if the path of the infer URL is of another form."""
    parts = urlsplit(url)
    base, found, _ = parts.path.partition("/v2/models/")
    return urlunsplit((parts.scheme, parts.netloc, f"{base}/v2", parts.query, "")) if found else ""


def _with_scheme(url: str) -> str:
    if not url:
        raise ContractError(
            f"{_FIELD}: required; set spec.kserve.modelUrl in the InferenceConfig to the model server's URL"
        )
    return url if "://" in url else f"http://{url}"


def _split(url: str) -> SplitResult | None:
    """Split a URL; None if its host or port is invalid."""
    try:
        parts = urlsplit(url)
        return None if parts.port == 0 else parts
    except ValueError:
        return None


def _infer_path(path: str, model_name: str) -> str:
    if path.endswith("/infer"):
        return path
    if "/v2/models/" in path:
        return f"{path}/infer"
    if not model_name:
        raise ContractError(
            "kserve.modelName: required if kserve.modelUrl is the server's base URL without /v2/models/<model>"
        )
    return f"{path.removesuffix('/models').removesuffix('/v2')}/v2/models/{quote(model_name, safe='')}/infer"
