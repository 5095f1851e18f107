"""What a run's status shows of its contract. Pure.

Who may read a status need not be allowed to read the config, so a copy of the contract there has no
values of headers other than those that only describe a message, and no URLs with user information
or a query. The contract itself is in the run's ConfigMap. A contract without any of these is shown
byte by byte.
"""

import base64
import binascii
import json
from typing import Any, Final
from urllib.parse import urlsplit

from inferrun.http_headers import is_descriptive, split_header
from inferrun.resources import InferenceRun
from inferrun.stores import FOLDER_LABELS
from inferrun.text import public_url

HIDDEN: Final = "(not shown)"

_CREDENTIALS: Final = (
    "authorization",
    "password",
    "passwd",
    "token",
    "secret",
    "apikey",
    "accesskey",
    "secretkey",
)
"""Ends of names, without - and _."""


def public_contract(contract_json: str) -> str:
    """The contract as JSON without what may be a credential; empty for a run whose contract is not
    known."""
    if not contract_json:
        return ""
    contract = json.loads(contract_json)
    public = {
        key: _public(value) if key in ("input", "output", "kserve") else value
        for key, value in contract.items()
    }
    return (
        contract_json
        if public == contract
        else json.dumps(public, ensure_ascii=False, separators=(",", ":"))
    )


def encoded_contract(contract_json: str) -> str:
    """The same as a status has it, which `published_contract` reads."""
    return base64.b64encode(public_contract(contract_json).encode()).decode()


def published_contract(run: InferenceRun) -> dict[str, Any]:  # Any: JSON
    """The contract in a run's status, which users cannot write; empty without one."""
    try:
        found = json.loads(base64.b64decode(run.status.contract or "", validate=True))
    except (binascii.Error, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _public(value: Any, key: str = "") -> Any:  # Any: JSON
    if key.lower() == "headers" and isinstance(value, list | dict):
        return _headers(value)
    may_be_credential = key.lower().replace("-", "").replace("_", "").endswith(_CREDENTIALS)
    if may_be_credential and isinstance(value, str | int | float | list):
        return HIDDEN
    if isinstance(value, dict):
        # Such a path may contain a question mark. By outputs, other runs and users find the
        # results.
        is_of_files = key in FOLDER_LABELS
        return {
            name: _public(item, "" if is_of_files and name == "path" else name)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [_public(item) for item in value]
    if isinstance(value, str) and (key == "modelUrl" or "://" in value):
        return _url(value)
    return (
        f"{value.partition('?')[0]}?{HIDDEN}"
        if key == "path" and isinstance(value, str) and "?" in value
        else value
    )


def _headers(headers: Any) -> Any:  # Any: JSON
    if isinstance(headers, dict):
        return {name: value if is_descriptive(name) else HIDDEN for name, value in headers.items()}
    shown: list[Any] = []  # Any: JSON
    for header in headers:
        if (
            isinstance(header, dict)
            and isinstance(name := header.get("name"), str)
            and header.keys() <= {"name", "value"}
        ):
            is_shown = is_descriptive(name) or not header.get("value")
            shown.append(header if is_shown else {"name": name, "value": HIDDEN})
            continue
        is_header = isinstance(header, str) and ":" in header
        hidden = f"{header.partition(':')[0]}: {HIDDEN}" if is_header else HIDDEN
        shown.append(header if is_header and is_descriptive(split_header(header)[0]) else hidden)
    return shown


def _url(text: str) -> str:
    """A URL without user information and query; any other text as it is."""
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        has_secret = "@" in parts.netloc or bool(parts.query) or bool(parts.fragment)
    except ValueError:
        return HIDDEN
    return public_url(text) if has_secret else text
