"""Assembles the two CustomResourceDefinitions from schema, rules, columns and names. Does no
I/O."""

from typing import Final

from pydantic import BaseModel

from deploy.crds.config_rules import CONFIG_RULES
from deploy.crds.rules import Rule
from deploy.crds.run_rules import run_rules
from deploy.crds.schema import Schema, paragraph, structural
from inferrun import wellknown
from inferrun.resources import (
    InferenceConfig,
    InferenceConfigSpec,
    InferenceConfigStatus,
    InferenceRun,
    InferenceRunSpec,
    InferenceRunStatus,
)
from inferrun.resources.status import NOT_OBSERVED
from inferrun.stores import SCHEMA_STORES

KEEP_UNKNOWN_KEYS: Final = "x-kubernetes-preserve-unknown-fields"


def column(
    name: str, path: str, *, kind: str = "string", description: str, wide: bool = False
) -> Schema:
    """One column of `kubectl get`."""
    entry: Schema = {"name": name, "type": kind, "jsonPath": path, "description": description}
    return entry | ({"priority": 1} if wide else {})


AGE: Final = column(
    "AGE", ".metadata.creationTimestamp", kind="date", description="Time since creation"
)

RUN_COLUMNS: Final = (
    column("PHASE", ".status.phase", description="Phase of the run"),
    column("REASON", ".status.reason", description="Reason for the phase"),
    column("CONFIG", ".spec.configRef.name", description="InferenceConfig of the run"),
    column(
        "DONE", ".status.records.completed", kind="integer", description="Records with a prediction"
    ),
    column("FAILED", ".status.records.failed", kind="integer", description="Records with an error"),
    column("DURATION", ".status.duration", description="Duration of the run"),
    AGE,
    column("JOB", ".status.jobStatus.name", description="Current or last Job", wide=True),
    column("WORKFLOW", ".status.workflow.id", description="Temporal workflow", wide=True),
    column(
        "OUTPUT", ".status.output.location", description="Location of the predictions", wide=True
    ),
    column(
        "INTERVAL",
        ".status.interval.text",
        description="Interval whose data the run processes",
        wide=True,
    ),
    column("NEXT", ".status.nextScheduleTimes[0]", description="Next scheduled time", wide=True),
)

CONFIG_COLUMNS: Final = (
    column(
        "READY",
        ".status.conditions[?(@.type=='Ready')].status",
        description="Whether runs can use the config",
    ),
    column(
        "REASON",
        ".status.conditions[?(@.type=='Ready')].reason",
        description="Reason for the readiness",
    ),
    AGE,
    column("IMAGE", ".spec.image", description="Custom image of the runner", wide=True),
    column(
        "MESSAGE",
        ".status.conditions[?(@.type=='Ready')].message",
        description="Explanation if it is not ready",
        wide=True,
    ),
)


SELECTABLE: Final = (".status.inputRun.name", ".status.phase")
"""The fields by which runs can be selected: those that read the output of a run, and those that the
shim has not accepted yet, which it looks for while it still reads the list of all.
"""


def inference_run() -> Schema:
    """The definition of InferenceRun."""
    spec = structural(InferenceRunSpec)
    definition = _definition(
        _resource(InferenceRun, spec=spec, status=structural(InferenceRunStatus)),
        rules=run_rules(tuple(spec["properties"])),
        columns=RUN_COLUMNS,
        names=_names(
            wellknown.RUN_KIND,
            plural=wellknown.RUN_PLURAL,
            singular=wellknown.RUN_SINGULAR,
            short=wellknown.RUN_SHORT_NAME,
        ),
    )
    definition["spec"]["versions"][0]["selectableFields"] = [
        {"jsonPath": path} for path in SELECTABLE
    ]
    return definition


def inference_config() -> Schema:
    """The definition of InferenceConfig."""
    spec = structural(InferenceConfigSpec)
    spec["properties"]["parameters"] |= {
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    for end in spec["properties"]["storage"]["properties"].values():
        # Add the schemas of the supported labels; unknown keys are preserved at every level, for
        # custom images.
        end["properties"] = {label: structural(model) for label, model in SCHEMA_STORES.items()}
        _keep_unknown_keys(end)
    return _definition(
        _resource(InferenceConfig, spec=spec, status=structural(InferenceConfigStatus)),
        rules=CONFIG_RULES,
        columns=CONFIG_COLUMNS,
        names=_names(
            wellknown.CONFIG_KIND,
            plural=wellknown.CONFIG_PLURAL,
            singular=wellknown.CONFIG_SINGULAR,
            short=wellknown.CONFIG_SHORT_NAME,
        ),
    )


def _resource(model: type[BaseModel], *, spec: Schema, status: Schema) -> Schema:
    """The schema of a resource; the API server provides the description of its metadata."""
    return {
        "description": paragraph(model.__doc__ or ""),
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {
                "description": f"API version of this resource: {wellknown.API_VERSION}.",
                "type": "string",
            },
            "kind": {"description": f"Kind of this resource: {model.__name__}.", "type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    }


def _keep_unknown_keys(node: Schema) -> None:
    if node.get("type") == "object":
        node[KEEP_UNKNOWN_KEYS] = True
        for child in node.get("properties", {}).values():
            _keep_unknown_keys(child)
    elif node.get("type") == "array":
        _keep_unknown_keys(node["items"])


def _names(kind: str, *, plural: str, singular: str, short: str) -> Schema:
    return {
        "categories": [wellknown.CATEGORY],
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": plural,
        "shortNames": [short],
        "singular": singular,
    }


def _definition(
    schema: Schema,
    *,
    rules: dict[str, tuple[Rule, ...]],
    columns: tuple[Schema, ...],
    names: Schema,
) -> Schema:
    for path, entries in rules.items():
        node = schema  # at the dotted path of JSON names; `[]` goes to the values of a list or map
        for step in path.split(".") if path else ():
            node = node["properties"][step.removesuffix("[]")]
            if step.endswith("[]"):
                node = node["items"] if "items" in node else node["additionalProperties"]
        node["x-kubernetes-validations"] = [entry.to_manifest() for entry in entries]
    # Conditions are a map by type. The status has one owner: otherwise the API server would update
    # the owner of each of its hundred fields with each write, and store them with the object, of
    # whose size they were a third.
    status = schema["properties"]["status"]
    status["x-kubernetes-map-type"] = "atomic"
    # Without a status, kstatus (which Flux and kapp use) takes an object for done: nothing has read
    # its spec yet.
    status["default"] = {"observedGeneration": NOT_OBSERVED}
    status["properties"]["conditions"] |= {
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{names['plural']}.{wellknown.GROUP}",
            # their objects would be deleted with them
            "annotations": {"helm.sh/resource-policy": "keep"},
        },
        "spec": {
            "group": wellknown.GROUP,
            "names": names,
            "scope": "Namespaced",
            "versions": [
                {
                    "name": wellknown.VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": list(columns),
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }
