"""Models of the two resources: `InferenceConfig` (what to execute) and `InferenceRun` (a single
execution, or a schedule).

The CRDs are generated from these models. Nothing here does I/O.
"""

from inferrun.reasons import Phase
from inferrun.resources.config import (
    AutoDeletePolicy,
    ImagePullPolicy,
    InferenceConfig,
    InferenceConfigSpec,
    KServeModel,
    ResourceRequirements,
    Storage,
    parse_config,
)
from inferrun.resources.interval import Interval
from inferrun.resources.parameters import Parameter
from inferrun.resources.references import (
    ConfigReference,
    Metadata,
    ObjectReference,
    OwnerReference,
    SecretReference,
    ServiceKind,
    ServiceReference,
)
from inferrun.resources.run import ConcurrencyPolicy, InferenceRun, InferenceRunSpec, parse_run
from inferrun.resources.status import (
    ActiveRun,
    Attempt,
    Condition,
    ConditionStatus,
    InferenceConfigStatus,
    InferenceRunStatus,
    ModelStatus,
    WorkflowReference,
)
from inferrun.stores import FileStorage, KrateoStorage
from inferrun.stores.krateo import EndpointReference, KrateoApi

__all__ = [
    "ActiveRun",
    "Attempt",
    "AutoDeletePolicy",
    "ConcurrencyPolicy",
    "Condition",
    "ConditionStatus",
    "ConfigReference",
    "EndpointReference",
    "FileStorage",
    "ImagePullPolicy",
    "InferenceConfig",
    "InferenceConfigSpec",
    "InferenceConfigStatus",
    "InferenceRun",
    "InferenceRunSpec",
    "InferenceRunStatus",
    "Interval",
    "KServeModel",
    "KrateoApi",
    "KrateoStorage",
    "Metadata",
    "ModelStatus",
    "ObjectReference",
    "OwnerReference",
    "Parameter",
    "Phase",
    "ResourceRequirements",
    "SecretReference",
    "ServiceKind",
    "ServiceReference",
    "Storage",
    "WorkflowReference",
    "parse_config",
    "parse_run",
]
