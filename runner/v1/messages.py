"""URLs, requests and responses of the V1 protocol. Pure.

A request is `{"instances": […]}` with one JSON value per record, a response `{"predictions": […]}` with one JSON value per
instance.
"""

from collections.abc import Sequence
from urllib.parse import quote, urlsplit, urlunsplit

from inferrun.plugins import ContractError, Json, JsonRecords, Results
from inferrun.text import public_url
from runner.json_text import array_of, number_row_texts, number_texts, texts_of
from runner.v2.tensors import errors_of, load

_FIELD = "kserve.modelUrl"


def predict_url(model_url: str, model_name: str) -> str:
    """Return the URL of the predict endpoint. Raises ContractError with the field."""
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
        raise ContractError(f"{_FIELD}: must be the http or https URL of a model server, got {public_url(model_url)!r}")
    return urlunsplit((parts.scheme, parts.netloc, _predict_path(parts.path.rstrip("/"), model_name), parts.query, ""))


def _predict_path(path: str, model_name: str) -> str:
    if path.endswith(":predict"):
        return path
    if path.endswith((":explain", "/infer")) or "/v2/models/" in path:
        raise ContractError(
            f"{_FIELD}: a URL of another protocol; allowed: the server's base URL or …/v1/models/<model>:predict"
        )
    if "/v1/models/" in path:
        return f"{path}:predict"
    if not model_name:
        raise ContractError(
            "kserve.modelName: required if kserve.modelUrl is the server's base URL without /v1/models/<model>"
        )
    return f"{path.removesuffix('/models').removesuffix('/v1')}/v1/models/{quote(model_name, safe='')}:predict"


def status_url(url: str) -> str:
    """Return the URL of the model's status."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.removesuffix(":predict"), parts.query, ""))


def encode(texts: Sequence[bytes]) -> bytes:
    """Return the body of a predict request. The records are neither decoded nor encoded."""
    return b'{"instances":%b}' % array_of(texts)


def decode(body: bytes, *, records: int) -> Results:
    """Return one prediction per record. Raises ValueError with what violates the protocol."""
    response = load(body)
    predictions = response.get("predictions") if isinstance(response, dict) else None
    if not isinstance(predictions, list):
        raise ValueError('no "predictions"')  # noqa: TRY004  callers expect ValueError for invalid responses
    if len(predictions) != records:
        raise ValueError(f"it has {len(predictions)} predictions for {records} records")
    if predictions and (texts := _numbers_of(predictions)) is not None:
        return Results(JsonRecords(texts))
    return Results(JsonRecords(texts_of(predictions)), errors_of(predictions))


def _numbers_of(predictions: list[Json]) -> Sequence[bytes] | None:
    """Return the predictions if they are finite numbers or arrays of equally many, as most are."""
    first = predictions[0]
    return number_row_texts(predictions, width=len(first)) if isinstance(first, list) else number_texts(predictions)
