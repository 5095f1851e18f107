"""Typical manifests: valid ones, and ones that `kubectl apply` rejects. Those that only the shim
can reject are in unit tests.

Each entry of a table is one mistake. `field` is the JSON name that the error message must contain.
"""

from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]  # Any: manifests are free-form JSON, invalid on purpose

CONFIG: Final = "InferenceConfig"
RUN: Final = "InferenceRun"

ENDPOINT: Final = {"name": "handler-endpoint", "namespace": "data"}
HANDLER: Final = {
    "path": "/compute/read",
    "verb": "POST",
    "headers": ["Accept: application/json", "Content-Type: application/json"],
    "endpointRef": ENDPOINT,
}
MODEL: Final = {
    "modelName": "sklearn-iris",
    "modelUrl": "sklearn-iris-predictor.kserve-test.svc.cluster.local/v2/models/sklearn-iris/infer",
    "modelVersion": "v2",
    "modelInputName": "input-0",
}
KRATEO_STORAGE: Final = {
    "input": {"krateo": {"api": HANDLER}},
    "output": {"krateo": {"api": HANDLER}},
}
FILE_STORAGE: Final = {
    "input": {"file": {"claimName": "data", "path": "in/iris.jsonl", "format": "jsonl"}},
    "output": {"file": {"claimName": "data", "path": "out"}},
}
GOOD_CONFIG: Final[Json] = {"kserve": MODEL, "storage": KRATEO_STORAGE}
GOOD_RUN: Final[Json] = {"configRef": {"name": "iris"}}


DAY: Final = {"start": "2026-11-21T00:00:00Z", "end": "2026-11-22T00:00:00Z"}


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """One resource: a title, its kind and its spec; `field` is the name that the error message must
    contain."""

    title: str
    kind: str
    spec: Any  # Any: may be of a wrong type on purpose
    field: str = ""
    value: str = ""

    def resource(self, *, name: str, namespace: str) -> Json:
        """The manifest with a name."""
        return {
            "apiVersion": "ai.krateo.io/v1",
            "kind": self.kind,
            "metadata": {"name": name, "namespace": namespace},
            "spec": self.spec,
        }


def config(title: str, *, field: str = "", value: str = "", **changes: object) -> Manifest:
    """A valid config with `changes`; None removes a field."""
    spec = {
        key: setting for key, setting in {**GOOD_CONFIG, **changes}.items() if setting is not None
    }
    return Manifest(title=title, kind=CONFIG, spec=spec, field=field, value=value)


def run(title: str, *, field: str = "", value: str = "", **changes: object) -> Manifest:
    """A valid run with `changes`; None removes a field."""
    spec = {key: setting for key, setting in {**GOOD_RUN, **changes}.items() if setting is not None}
    return Manifest(title=title, kind=RUN, spec=spec, field=field, value=value)


def file_input(**settings: object) -> Json:
    """Storage whose input is a `file` with these settings."""
    return {"input": {"file": settings}, "output": FILE_STORAGE["output"]}


def krateo_output(**settings: object) -> Json:
    """Storage whose output is a `krateo` request with these settings in addition to the
    endpoint."""
    return {
        "input": KRATEO_STORAGE["input"],
        "output": {"krateo": {"api": {"endpointRef": ENDPOINT} | settings}},
    }


def affinity(operator: str, *values: str, key: str = "example.com/pool", count: int = 1) -> Json:
    """Nodes that are required and preferred, by so many terms."""
    condition: Json = {"key": key, "operator": operator} | (
        {"values": list(values)} if values else {}
    )
    term = {"matchExpressions": [condition] * count}
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term] * count},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]
            * count,
        }
    }


LARGEST_KEY: Final = f"{'d' * 253}/{'k' * 63}"
SPREAD: Final = {"maxSkew": 64, "topologyKey": LARGEST_KEY, "whenUnsatisfiable": "DoNotSchedule"}
LARGEST_PLACEMENT: Final[Json] = {
    "nodeSelector": {f"{LARGEST_KEY[:-2]}{number:02}": "v" * 63 for number in range(16)},
    "affinity": affinity("NotIn", *["v" * 63] * 16, key=LARGEST_KEY, count=8),
    "tolerations": [
        {"key": LARGEST_KEY, "operator": "Equal", "value": "v" * 63, "effect": "NoExecute"}
    ]
    * 16,
    "topologySpreadConstraints": [SPREAD] * 4,
    "priorityClassName": "p" * 253,
    "runtimeClassName": "r" * 253,
}


ACCEPTED: Final = (
    config(
        "an object of KServe",
        kserve={"serviceRef": {"kind": "LLMInferenceService", "name": "a", "namespace": "b"}},
    ),
    config("a config of twelve lines"),
    config(
        "a config for the older controller",
        image="registry.example/runner:0.1.0",
        autoDeletePolicy="None",
    ),
    config("the model's fields directly below spec", kserve=None, **MODEL),
    config("both placements with the same values", **MODEL),
    config("a placement of which one side is empty", modelVersion="", modelName="sklearn-iris"),
    config("an empty model", kserve={}),
    config("auto-deletion", autoDeletePolicy="DeleteOnCompletion", autoDeleteDelaySeconds=0),
    config(
        "a label of a custom image",
        image="mine:1",
        storage={"output": {"s3": {"any": ["thing", {"a": 1}]}}},
    ),
    config("files", storage=FILE_STORAGE),
    config(
        "an unknown key below a supported label, which the shim reports",
        storage=file_input(claimName="a", path="b", c=1),
    ),
    config(
        "every other field",
        image="mine:1",
        imagePullPolicy="IfNotPresent",
        credentialsRef={"name": "pull", "namespace": "elsewhere"},
        runAsUser=1000,
        backoffLimit=0,
        ttlSecondsAfterFinished=60,
        serviceAccountName="runner",
        resources={
            "requests": {"cpu": 1, "memory": "256Mi"},
            "limits": {"cpu": "1.5", "nvidia.com/gpu": 1},
        },
    ),
    *(
        config(f"an error threshold of {value!r}", errorThreshold=value)
        for value in (0, 10, "10", "5%", "0.1%", "100%")
    ),
    config("a canary", canaryRecords=100),
    config("the largest placement", **LARGEST_PLACEMENT),
    config(
        "a toleration of any value",
        tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "value": ""}],
    ),
    config("a condition without values", affinity=affinity("Exists")),
    config("a condition on a number", affinity=affinity("Gt", "16")),
    run(
        "a run with resources",
        resources={"requests": {"memory": "1Gi"}, "limits": {"nvidia.com/gpu": 1}},
    ),
    config("several shards", shards=64),
    run("a run of several shards", shards=2),
    run("a run with an error threshold and a canary", errorThreshold="5%", canaryRecords=1),
    run("a dry run", dryRun=True),
    run("a retry", retryOf="earlier"),
    run("no dry run, with a schedule", dryRun=False, schedule="@daily"),
    run("an interval", interval=DAY),
    run(
        "an interval of a second, in a time zone",
        interval={**DAY, "end": "2026-11-21T00:00:01Z", "timeZone": "Europe/Rome"},
    ),
    run("a run of five lines"),
    run(
        "a run for the older controller",
        timeoutSeconds=3600,
        parameters={"input_table_name": "a", "key_value": "512"},
    ),
    run("a config of another namespace", configRef={"name": "iris", "namespace": "shared"}),
    run("no limit of time", timeoutSeconds=0, pendingTimeoutSeconds=0, backoffLimit=0),
    run("a schedule", schedule="1 * * * *"),
    run("a schedule by a day's name", schedule="0 9 * * MON"),
    run("a schedule by a macro", schedule="@daily"),
    run("a schedule with lists, ranges, steps", schedule="*/15 8-18/2 1,15 JAN-MAR,12 mon-FRI,7"),
    run("a schedule that is suspended", schedule="@weekly", suspend=True),
    run(
        "a schedule with every field",
        schedule="0 3 ? * *",
        timeZone="America/Argentina/Buenos_Aires",
        concurrencyPolicy="Replace",
        startingDeadlineSeconds=10,
        jitterSeconds=3600,
        successfulJobsHistoryLimit=0,
        failedJobsHistoryLimit=0,
        suspend=False,
    ),
    run("not suspended, without a schedule", suspend=False),
    run("suspended, without a schedule", suspend=True),
)

REJECTED: Final = (
    # InferenceConfig
    config("no storage", storage=None, field="spec.storage"),
    config("storage that is a list", storage=[], field="spec.storage", value="array"),
    config(
        "a storage label with a string",
        storage={"input": {"file": "data"}},
        field="spec.storage.input.file",
    ),
    config("a file without a claim", storage=file_input(path="x"), field="claimName"),
    config("a file without a path", storage=file_input(claimName="x"), field="path"),
    config(
        "a path that climbs",
        storage=file_input(claimName="x", path="a/../../b"),
        field="path",
        value="a/../../b",
    ),
    config(
        "an absolute path",
        storage=file_input(claimName="x", path="/etc/passwd"),
        field="path",
        value="/etc/passwd",
    ),
    config(
        "a claim with a bad name",
        storage=file_input(claimName="X_Y", path="a"),
        field="claimName",
        value="X_Y",
    ),
    config(
        "a call without an endpoint",
        storage={"input": {"krateo": {"api": {}}}},
        field="endpointRef",
    ),
    config(
        "an unknown HTTP verb", storage=krateo_output(verb="FETCH"), field="verb", value="FETCH"
    ),
    # The value is not shown: it may be a token.
    config(
        "a header without a colon",
        storage=krateo_output(headers=["nothing"]),
        field="headers",
        value="headers[0]",
    ),
    config(
        "headers that are text",
        storage=krateo_output(headers="a: b"),
        field="headers",
        value="string",
    ),
    config("kserve that is text", kserve="sklearn-iris", field="spec.kserve", value="string"),
    config(
        "a model name that is a number", kserve={"modelName": 5}, field="modelName", value="integer"
    ),
    config("two model names", modelName="other", field="spec.modelName", value="other"),
    config(
        "an object of KServe and a URL",
        kserve={"serviceRef": {"name": "iris"}, "modelUrl": "http://a"},
        field="spec.kserve.serviceRef",
        value='"iris" and modelUrl is set; allowed is one of them',
    ),
    config(
        "an object of KServe and a URL in the other placement",
        kserve={"serviceRef": {"name": "iris"}},
        modelUrl="http://a",
        field="spec.kserve.serviceRef",
        value="iris",
    ),
    config(
        "another kind of KServe",
        kserve={"serviceRef": {"kind": "InferenceGraph", "name": "iris"}},
        field="spec.kserve.serviceRef.kind",
        value="InferenceGraph",
    ),
    config("two model URLs", modelUrl="http://other", field="spec.modelUrl", value="http://other"),
    config("two model versions", modelVersion="v1", field="spec.modelVersion", value="v1"),
    config("two input names", modelInputName="other", field="spec.modelInputName", value="other"),
    config("an unknown protocol", kserve={"modelVersion": "v3"}, field="modelVersion", value="v3"),
    config(
        "an unknown protocol, placed above",
        kserve=None,
        modelVersion="2",
        field="modelVersion",
        value='"2"',
    ),
    config("an empty image", image="", field="spec.image"),
    config("an image with a space", image="my image", field="spec.image", value="my image"),
    config(
        "an unknown pull policy",
        imagePullPolicy="Sometimes",
        field="imagePullPolicy",
        value="Sometimes",
    ),
    config(
        "a pull secret without a name",
        credentialsRef={"namespace": "x"},
        field="credentialsRef.name",
    ),
    config("root", runAsUser=0, field="runAsUser", value="0"),
    config("a user by name", runAsUser="nobody", field="runAsUser", value="string"),
    config(
        "an unknown policy of deletion",
        autoDeletePolicy="Always",
        field="autoDeletePolicy",
        value="Always",
    ),
    config(
        "a negative delay", autoDeleteDelaySeconds=-1, field="autoDeleteDelaySeconds", value="-1"
    ),
    config("negative retries", backoffLimit=-1, field="backoffLimit", value="-1"),
    config("retries for ever", backoffLimit=101, field="backoffLimit", value="101"),
    config(
        "a negative time to live",
        ttlSecondsAfterFinished=-5,
        field="ttlSecondsAfterFinished",
        value="-5",
    ),
    config(
        "a service account with a bad name",
        serviceAccountName="A B",
        field="serviceAccountName",
        value="A B",
    ),
    *(
        config(
            f"a limit of {size!r}",
            limits={limit: size},
            field=f"spec.limits.{limit}",
            value=str(size),
        )
        for limit, size in (
            ("chunk", 0),
            ("record", "1Xi"),
            ("window", "512Ki"),
            ("spool", "2Ti"),
            ("response", "1.5Gi"),
        )
    ),
    config(
        "no quantity",
        resources={"limits": {"cpu": "1x"}},
        field="spec.resources.limits",
        value="1x",
    ),
    config(
        "a negative quantity",
        resources={"requests": {"cpu": "-1"}},
        field="spec.resources.requests",
        value="-1",
    ),
    config(
        "a negative number",
        resources={"requests": {"memory": -5}},
        field="spec.resources.requests",
        value="-5",
    ),
    *(
        config(
            f"an error threshold of {value!r}",
            errorThreshold=value,
            field="errorThreshold",
            value=str(value),
        )
        for value in (-1, "-1", "101%", "5 %", "many", "1e3", 10**9)
    ),
    *(
        config(f"parameters with {title}", parameters=declared, field=field, value=said)
        for title, declared, field, said in (
            ("two of a name", [{"name": "a"}, {"name": "a"}], "parameters[1]", "Duplicate"),
            ("a space in a name", [{"name": "a b"}], "parameters[0].name", "a b"),
            (
                "too many members",
                [{"name": f"p{number}"} for number in range(65)],
                "parameters",
                "64",
            ),
            ("no name", [{"default": "a"}], "parameters[0].name", "Required"),
            (
                "a number as default",
                [{"name": "a", "default": 5}],
                "parameters[0].default",
                "integer",
            ),
        )
    ),
    config(
        "a claim by a placeholder",
        storage=file_input(claimName="$(params.c)", path="a"),
        field="claimName",
    ),
    config(
        "a verb by a placeholder",
        storage=krateo_output(verb="$(params.v)"),
        field="verb",
        value="$(params.v)",
    ),
    config("a canary of nothing", canaryRecords=0, field="canaryRecords", value="0"),
    *(
        config(
            f"a condition {title}",
            affinity=affinity(*given),
            field="affinity.nodeAffinity",
            value=given[0],
        )
        for title, given in (
            ("without a value", ("In",)),
            ("with a value too many", ("Exists", "a")),
            ("on a number that is none", ("Gt", "big")),
            ("on two numbers", ("Lt", "1", "2")),
            ("with an unknown operator", ("Equals", "a")),
        )
    ),
    config(
        "a node without a condition",
        affinity=affinity("In", "a", count=0),
        field="nodeSelectorTerms",
    ),
    config(
        "too many labels",
        nodeSelector={f"k{number}": "v" for number in range(17)},
        field="nodeSelector",
    ),
    config(
        "a label with a space", nodeSelector={"pool": "a b"}, field="nodeSelector.pool", value="a b"
    ),
    config(
        "a label that is a boolean",
        nodeSelector={"spot": True},
        field="nodeSelector.spot",
        value="boolean",
    ),
    config(
        "a toleration of everything",
        tolerations=[{"operator": "Exists"}],
        field="tolerations[0].key",
    ),
    config(
        "a toleration of any value that has one",
        tolerations=[{"key": "pool", "operator": "Exists", "value": "gpu"}],
        field="tolerations[0].value",
        value="gpu",
    ),
    config(
        "an unknown effect",
        tolerations=[{"key": "a", "effect": "Never"}],
        field="effect",
        value="Never",
    ),
    config(
        "a spread without a limit",
        topologySpreadConstraints=[{"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}],
        field="maxSkew",
    ),
    config(
        "a bad priority class", priorityClassName="High!", field="priorityClassName", value="High!"
    ),
    config(
        "a bad runtime class", runtimeClassName="../runc", field="runtimeClassName", value="../runc"
    ),
    # InferenceRun
    run(
        "resources that are negative",
        resources={"limits": {"cpu": "-1"}},
        field="resources.limits[cpu]",
        value="-1",
    ),
    run(
        "a retry by a schedule",
        retryOf="earlier",
        schedule="@daily",
        field="retryOf",
        value="earlier",
    ),
    config("no shards", shards=0, field="shards", value="0"),
    run("too many shards", shards=65, field="shards", value="65"),
    run("a retry of a bad name", retryOf="My_Run", field="retryOf", value="My_Run"),
    run("a dry run by a schedule", dryRun=True, schedule="@daily", field="dryRun", value="true"),
    run("a dry run by text", dryRun="yes", field="dryRun", value="string"),
    run(
        "an error threshold without a number", errorThreshold="%", field="errorThreshold", value="%"
    ),
    run("no config", configRef=None, field="spec.configRef"),
    run("a config without a name", configRef={"namespace": "a"}, field="configRef.name"),
    run("a config by plain text", configRef="iris", field="spec.configRef", value="string"),
    run(
        "a config with a bad name",
        configRef={"name": "My_Config"},
        field="configRef.name",
        value="My_Config",
    ),
    run(
        "a bad namespace",
        configRef={"name": "a", "namespace": "a.b"},
        field="configRef.namespace",
        value="a.b",
    ),
    run("a negative timeout", timeoutSeconds=-1, field="timeoutSeconds", value="-1"),
    run("a timeout with a unit", timeoutSeconds="1h", field="timeoutSeconds", value="string"),
    run(
        "a timeout beyond ten years",
        timeoutSeconds=10**12,
        field="timeoutSeconds",
        value="1000000000000",
    ),
    run(
        "a negative limit of waiting",
        pendingTimeoutSeconds=-1,
        field="pendingTimeoutSeconds",
        value="-1",
    ),
    run("retries by halves", backoffLimit=1.5, field="backoffLimit", value="number"),
    run(
        "a parameter that is a number",
        parameters={"rows": 5},
        field="parameters.rows",
        value="integer",
    ),
    run("parameters as a list", parameters=["a"], field="spec.parameters", value="array"),
    run("the reserved job_uid", parameters={"job_uid": "x"}, field="parameters", value="job_uid"),
    run("the reserved pod_uid", parameters={"pod_uid": "x"}, field="parameters", value="pod_uid"),
    run(
        "the reserved predictions",
        parameters={"predictions": "x"},
        field="parameters",
        value="predictions",
    ),
    *(
        run(
            f"an {field} that {end}s in the middle of a second",
            **{field: {**more, **DAY, end: time}},
            configRef=ref,
            field=f"{field}.{end}",
            value="must be in whole seconds",
        )
        for field, more, ref in (
            ("interval", {}, {"name": "iris"}),
            ("backfill", {"schedule": "nightly"}, None),
        )
        for end, time in (
            ("start", "2026-11-21T00:00:00.001Z"),
            ("end", "2026-11-22T00:00:00.000000001+00:00"),
        )
    ),
    run("an interval without an end", interval={"start": DAY["start"]}, field="interval.end"),
    *(
        run(f"an interval with {title}", interval={**DAY, key: value}, field="interval", value=said)
        for title, key, value, said in (
            ("an end before its start", "end", "2026-11-20T00:00:00Z", "2026-11-20T00:00:00Z"),
            ("its end at its start", "end", "2026-11-21T01:00:00+01:00", "an end after the start"),
            ("a start without an offset", "start", "2026-11-21T00:00:00", "2026-11-21T00:00:00"),
            ("a start that is a date", "start", "2026-11-21", "2026-11-21"),
            ("a start that is a number", "start", 1700000000, "integer"),
            ("a start on the 30th of February", "start", "2026-02-30T00:00:00Z", "2026-02-30"),
            ("a start in the year 0", "start", "0000-01-01T00:00:00Z", "0000-01-01"),
            ("a start before 1970", "start", "1969-12-31T23:59:59Z", "1969"),
            ("a start with an impossible offset", "start", "2026-11-21T00:00:00+99:00", "+99:00"),
            ("a start with a fraction of a second", "start", "2026-11-21T00:00:00.5Z", "00:00.5Z"),
            ("a start that is a placeholder", "start", "$(interval.start)", "$(interval.start)"),
            ("a start at the hour 24", "start", "2026-11-21T24:00:00Z", "times such as"),
            ("an end in a leap second", "end", "2026-12-31T23:59:60Z", "times such as"),
            ("an end in a year of five digits", "end", "12026-11-21T00:00:00Z", "12026"),
            ("an end in the year 9999", "end", "9999-12-31T23:59:59-12:00", "9999-12-31"),
            ("the time zone Local", "timeZone", "Local", "Local"),
            ("a path as its time zone", "timeZone", "../../etc/localtime", "IANA"),
            ("an offset as its time zone", "timeZone", "+01:00", "IANA"),
        )
    ),
    run(
        "an interval of a schedule",
        interval=DAY,
        schedule="@daily",
        field="interval",
        value="@daily",
    ),
    run("a schedule of digits", schedule="12345", field="schedule", value="12345"),
    run("a schedule of four fields", schedule="* * * *", field="schedule", value="* * * *"),
    run(
        "a schedule with seconds", schedule="0 0 9 * * MON", field="schedule", value="0 0 9 * * MON"
    ),
    run("minute 60", schedule="60 * * * *", field="schedule", value="60 * * * *"),
    run("hour 24", schedule="0 24 * * *", field="schedule", value="0 24 * * *"),
    run("month 13", schedule="0 0 1 13 *", field="schedule", value="0 0 1 13 *"),
    run("an unknown day", schedule="0 0 * * FOO", field="schedule", value="FOO"),
    run("an unknown macro", schedule="@often", field="schedule", value="@often"),
    run(
        "a time zone inside the schedule",
        schedule="TZ=Europe/Rome 0 9 * * *",
        field="schedule",
        value="TZ=",
    ),
    run("an empty schedule", schedule="", field="schedule"),
    run(
        "the time zone Local", schedule="@daily", timeZone="Local", field="timeZone", value="Local"
    ),
    run(
        "a time zone as an offset",
        schedule="@daily",
        timeZone="+01:00",
        field="timeZone",
        value="+01:00",
    ),
    run(
        "a time zone without a schedule",
        timeZone="Europe/Rome",
        field="timeZone",
        value="Europe/Rome",
    ),
    run(
        "a policy without a schedule",
        concurrencyPolicy="Allow",
        field="concurrencyPolicy",
        value="Allow",
    ),
    run("a history without a schedule", failedJobsHistoryLimit=1, field="failedJobsHistoryLimit"),
    run("jitter without a schedule", jitterSeconds=1, field="jitterSeconds"),
    run(
        "too much jitter",
        schedule="@daily",
        jitterSeconds=3601,
        field="jitterSeconds",
        value="3601",
    ),
    run(
        "an unknown policy",
        schedule="@daily",
        concurrencyPolicy="Queue",
        field="concurrencyPolicy",
        value="Queue",
    ),
    run(
        "a negative history",
        schedule="@daily",
        successfulJobsHistoryLimit=-1,
        field="successfulJobsHistoryLimit",
    ),
    run(
        "a deadline too short",
        schedule="@daily",
        startingDeadlineSeconds=5,
        field="startingDeadlineSeconds",
        value="5",
    ),
)
