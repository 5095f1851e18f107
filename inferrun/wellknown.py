"""Names in Kubernetes: group, version, kinds, labels and annotations.

They are API, because clusters store them, users type them and selectors match them; none is ever
renamed. The product's own names start with ``inferrun.dev/``. Names that start with ``krateo.io``
belong to the controller that this product replaces: they are honoured but never written. This
module contains only constants and imports nothing.
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
"""On every Job, Pod and ConfigMap: the installation that created it. Sweeps are limited to their
own cluster."""

LABEL_RUN_UID: Final = f"{DOMAIN}/run-uid"
"""On every Job, Pod and ConfigMap: the UID of the InferenceRun. Its name may exceed the 63
characters of a label."""

LABEL_LAUNCH: Final = f"{DOMAIN}/launch"
"""On every Job and Pod: the number of the launch, starting from 1."""

LABEL_ATTEMPT: Final = f"{DOMAIN}/attempt"
"""On every Job and Pod: the number of the attempt, starting from 1; attempts count towards
backoffLimit."""

LABEL_ENDED: Final = f"{DOMAIN}/ended"
"""Set to "true" on a Job whose end was recorded in its run's status. The worker does not watch such
Jobs."""

LABEL_SCHEDULE_UID: Final = f"{DOMAIN}/schedule-uid"
"""On a run created by a schedule: the UID of the scheduled InferenceRun."""

LABEL_BACKFILL: Final = f"{DOMAIN}/backfill-uid"
"""On a run of a schedule that a back-fill created: the UID of the back-fill. The schedule's history
limits do not apply to it."""

ANNOTATION_RUN: Final = f"{DOMAIN}/run"
"""On Jobs, Pods and ConfigMaps: the name of the InferenceRun."""

ANNOTATION_SCHEDULED_TIME: Final = f"{DOMAIN}/scheduled-time"
"""On a run created by a schedule: its nominal time in RFC 3339."""

ANNOTATION_BACKFILL: Final = f"{DOMAIN}/backfill"
"""On a run of a schedule that a back-fill created: the name of the back-fill."""

ANNOTATION_WORKFLOW_ID: Final = f"{DOMAIN}/submitted-by"
"""On a submitted run: the id of its SubmitInferenceRun workflow."""

ANNOTATION_REQUEST_HASH: Final = f"{DOMAIN}/request-hash"
"""On a submitted run: SHA-256 digest of the request, which detects a different request with the
same id."""

ANNOTATION_STARTED_AS: Final = f"{DOMAIN}/started-as"
"""On a run that has started: its UID. A copy with another UID and without a status, such as a
backup restores, is not executed."""

ANNOTATION_PAUSED: Final = "krateo.io/paused"
"""Set to "true" on a run or a config: shim and worker ignore it."""

LEGACY_FINALIZER: Final = "finalizer.managedresource.krateo.io"
"""Finalizer of the Krateo controller on older runs; it must not prevent their deletion."""

ANNOTATION_CANCEL_REQUESTED: Final = f"{DOMAIN}/cancel-requested"
"""Set to "true" on a run: cancel it. The annotation preserves the request until the run has
ended."""

ANNOTATION_SIGNATURE: Final = f"{DOMAIN}/signature"
"""On the ConfigMap and the Jobs of a run: proves that a worker created an object of this name,
until the run's status names it."""

ANNOTATION_SIGNER: Final = f"signer.{DOMAIN}/"
"""Followed by a public key, on the Lease `inferrun-signers`: when the worker started that signs
with it."""

ANNOTATION_RUNNER: Final = f"{DOMAIN}/runner"
"""On a Job: `builtin` if its image is the built-in runner, which logs its progress; otherwise
`custom`."""

RUNNER_BUILTIN: Final = "builtin"
RUNNER_CUSTOM: Final = "custom"
RUNNER_VERIFY: Final = "verify"
"""The Job is not a launch: it checks whether the run's output is committed."""

ANNOTATION_STOPPED: Final = f"{DOMAIN}/stopped"
"""Set to "true" on a Job of a custom image that was stopped: it is kept until its Pods have ended,
because its status counts how they ended."""

ANNOTATION_IMAGE: Final = f"{DOMAIN}/image"
"""On a Job: the image that its run asked for. The Job may have another one, because admission has
changed it."""

ANNOTATION_SECRET_NAMESPACES: Final = f"{DOMAIN}/secret-namespaces"
"""On a Job: JSON object from the name of a Secret to the namespace that its reference named, if
that is not the run's."""
