"""Counts the requests that the API server and Temporal have answered, from their metrics. Unlike
CPU time, they do not depend on the load."""

import re
from collections import Counter

from inferrun.kube.client import KubeClient

_COUNTED = re.compile(
    r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<count>\S+)$", re.MULTILINE
)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_IGNORED_RESOURCES = frozenset({"", "leases", "namespaces", "serviceaccounts"})

_CALLED = re.compile(
    r"^service_requests(?:_total)?\{(?P<labels>[^}]*)\} (?P<count>\S+)$", re.MULTILINE
)

Requests = Counter[str]
"""Numbers of requests by verb and resource, such as `PATCH inferenceruns/status`, or by the
operation of Temporal."""


async def read_requests(api: KubeClient) -> Requests:
    """All requests so far, other than watches."""
    return parse_requests(await api.text("/metrics"))


def parse_requests(metrics: str) -> Requests:
    """The counts in the text of the metrics. Pure."""
    found: Requests = Counter()
    for line in _COUNTED.finditer(metrics):
        labels = dict(_LABEL.findall(line["labels"]))
        resource = labels.get("resource", "")
        if labels.get("verb") == "WATCH" or resource in _IGNORED_RESOURCES:
            continue
        sub = f"/{labels['subresource']}" if labels.get("subresource") else ""
        found[f"{labels['verb']} {resource}{sub}"] += int(float(line["count"]))
    return found


def parse_calls(metrics: str) -> Requests:
    """The calls to Temporal's frontend in the text of its metrics. Pure."""
    found: Requests = Counter()
    for line in _CALLED.finditer(metrics):
        labels = dict(_LABEL.findall(line["labels"]))
        if labels.get("service_name") == "frontend":
            found[labels.get("operation", "")] += int(float(line["count"]))
    return found
