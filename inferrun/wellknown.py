"""The names by which Kubernetes knows us: group, version, kinds, labels and annotations.

They are API: stored in clusters, typed by people, matched by selectors. None is ever renamed. Everything of ours
is under ``inferrun.dev/``; what begins with ``krateo.io`` belongs to the controller that this product replaces and is
honoured, never written. This module holds constants only and imports nothing.
"""

from typing import Final

GROUP: Final = "ai.krateo.io"
VERSION: Final = "v1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

CONFIG_KIND: Final = "InferenceConfig"
CONFIG_PLURAL: Final = "inferenceconfigs"
CONFIG_SINGULAR: Final = "inferenceconfig"
CONFIG_SHORT_NAME: Final = "icfg"

RUN_KIND: Final = "InferenceRun"
RUN_PLURAL: Final = "inferenceruns"
RUN_SINGULAR: Final = "inferencerun"
RUN_SHORT_NAME: Final = "irun"

CATEGORY: Final = "inferrun"

DOMAIN: Final = "inferrun.dev"

LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "inferrun"

LABEL_INSTALLATION: Final = f"{DOMAIN}/installation"
"""On every Job, Pod and ConfigMap: which installation made it. Sweeps touch only their own."""

LABEL_RUN_UID: Final = f"{DOMAIN}/run-uid"
"""On every Job, Pod and ConfigMap: the UID of the InferenceRun (a name may be longer than a label's 63 characters)."""

LABEL_LAUNCH: Final = f"{DOMAIN}/launch"
"""On every Job and Pod: which launch of the run this is, from 1."""

LABEL_ATTEMPT: Final = f"{DOMAIN}/attempt"
"""On every Job and Pod: which attempt (counted against backoffLimit) the launch belongs to, from 1."""

LABEL_SCHEDULE_UID: Final = f"{DOMAIN}/schedule-uid"
"""On a run that a schedule made: the UID of the InferenceRun that holds the schedule."""

ANNOTATION_RUN: Final = f"{DOMAIN}/run"
"""On Jobs, Pods and ConfigMaps: the name of the InferenceRun."""

ANNOTATION_SCHEDULED_TIME: Final = f"{DOMAIN}/scheduled-time"
"""On a run that a schedule made: the nominal time of the fire, RFC 3339."""

ANNOTATION_WORKFLOW_ID: Final = f"{DOMAIN}/submitted-by"
"""On a run made through the front door: the id of the SubmitInferenceRun workflow."""

ANNOTATION_REQUEST_HASH: Final = f"{DOMAIN}/request-hash"
"""On a run made through the front door: SHA-256 of the request, so that the same id with another request is seen."""

ANNOTATION_PAUSED: Final = "krateo.io/paused"
"""Set to "true" on a run or a config: it is left alone."""

LEGACY_FINALIZER: Final = "finalizer.managedresource.krateo.io"
"""Left on runs by the controller that this product replaces; it must not keep a run from being deleted."""

ANNOTATION_CANCEL_REQUESTED: Final = f"{DOMAIN}/cancel-requested"
"""Set to "true" on a run: it is to end as Cancelled. A request that outlives whoever made it."""

LABEL_ENDED: Final = f"{DOMAIN}/ended"
"""Set to "true" on a Job whose end was recorded in its run's status. The worker does not watch such Jobs."""

ANNOTATION_RUNNER: Final = f"{DOMAIN}/runner"
"""On a Job: RUNNER_BUILTIN if its image is our runner, which logs its progress; otherwise RUNNER_CUSTOM."""

RUNNER_BUILTIN: Final = "builtin"
RUNNER_CUSTOM: Final = "custom"

ANNOTATION_SECRET_NAMESPACES: Final = f"{DOMAIN}/secret-namespaces"
"""On a Job: JSON object from the name of a Secret to the namespace that its reference named, if that is not the run's."""
