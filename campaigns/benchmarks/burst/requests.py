"""Counts the requests that the API server has answered, from its metrics. Unlike CPU time, they do
not depend on the load."""

import re
from collections import Counter

from inferrun.kube.client import KubeClient

_COUNTED = re.compile(
    r"^apiserver_request_total\{(?P<labels>[^}]*)\} (?P<count>\S+)$", re.MULTILINE
)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_IGNORED_RESOURCES = frozenset({"", "leases", "namespaces", "serviceaccounts"})

Requests = Counter[str]
"""Numbers of requests by verb and resource, such as `PATCH inferenceruns/status`."""


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
