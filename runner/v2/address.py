"""From what people write as `modelUrl` to the URL that predicts. Pure.

The Krateo controller's users give the whole address, mostly without a scheme (`host/v2/models/iris/infer`), and it is taken
as it stands: the model in it need not be `modelName`. A base address gets the protocol's path with `modelName` in it.
"""

from urllib.parse import SplitResult, quote, urlsplit, urlunsplit

from runner.errors import ContractError

_FIELD = "kserve.modelUrl"


def infer_url(model_url: str, model_name: str) -> str:
    """The URL to post to; raises ContractError that names the field."""
    parts = _split(_with_scheme(model_url.strip()))
    if parts is None or parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ContractError(f"{_FIELD}: an http or https address of a model server is required, it is {model_url!r}")
    path = parts.path.rstrip("/")
    if path.endswith((":predict", ":explain")):
        raise ContractError(
            f"{_FIELD}: {model_url!r} is an address of protocol v1; allowed: the server's address or "
            "…/v2/models/<model>/infer"
        )
    return urlunsplit((parts.scheme, parts.netloc, _infer_path(path, model_name), parts.query, ""))


def metadata_url(url: str) -> str:
    """Where the model behind an infer URL describes itself."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.removesuffix("/infer"), parts.query, ""))


def _with_scheme(url: str) -> str:
    if not url:
        raise ContractError(
            f"{_FIELD}: is required; set spec.kserve.modelUrl of the config to the model server's address"
        )
    return url if "://" in url else f"http://{url}"


def _split(url: str) -> SplitResult | None:
    """The parts of a URL; None where its host or port cannot be one."""
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
            "kserve.modelName: is required when kserve.modelUrl is the server's address without /v2/models/<model>"
        )
    return f"{path.removesuffix('/models').removesuffix('/v2')}/v2/models/{quote(model_name, safe='')}/infer"
