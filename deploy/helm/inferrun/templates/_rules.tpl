{{/*
Permissions of the shim, which watches everything: read both resources, write their status, follow the Jobs of runs, have those watched
again whose labels were removed, delete those that nothing follows any more, and emit Events. No rule has a wildcard or includes Secrets.
*/}}
{{- define "inferrun.rules.shim" -}}
- apiGroups: ["ai.krateo.io"]
  resources: ["inferenceruns", "inferenceconfigs"]
  verbs: ["get", "list", "watch"]
- apiGroups: ["ai.krateo.io"]
  resources: ["inferenceruns"]
  verbs: ["patch"]  # marks a run that has started; removes the Krateo controller's finalizer from one that is being deleted
- apiGroups: ["ai.krateo.io"]
  resources: ["inferenceruns/status", "inferenceconfigs/status"]
  verbs: ["patch"]
- apiGroups: ["batch"]
  resources: ["jobs"]
  verbs: ["get", "list", "watch", "patch", "delete"]
- apiGroups: [""]
  resources: ["pods"]
  verbs: ["list", "watch"]
- apiGroups: [""]
  resources: ["pods/log"]
  verbs: ["get"]  # the progress of a run
- apiGroups: [""]
  resources: ["configmaps"]
  verbs: ["get"]  # for how long a finished Job is kept
- apiGroups: [""]
  resources: ["events"]
  verbs: ["list", "create"]
- apiGroups: [""]
  resources: ["resourcequotas"]
  verbs: ["list", "watch"]  # a run that waits for a quota starts when there is room
- apiGroups: ["serving.kserve.io"]
  resources: ["inferenceservices", "llminferenceservices"]
  verbs: ["list", "watch"]  # a run whose model is not ready starts when the object changes
{{- end -}}

{{/*
Permissions of the worker: create, read and delete the Jobs of runs, write the status of runs, create runs for schedules and
programs, and delete runs according to their auto-delete policy.
*/}}
{{- define "inferrun.rules.worker" -}}
- apiGroups: ["ai.krateo.io"]
  resources: ["inferenceruns"]
  verbs: ["get", "list", "create", "patch", "delete"]
- apiGroups: ["ai.krateo.io"]
  resources: ["inferenceruns/status"]
  verbs: ["patch"]
- apiGroups: ["ai.krateo.io"]
  resources: ["inferenceconfigs"]
  verbs: ["get"]
- apiGroups: ["batch"]
  resources: ["jobs"]
  verbs: ["get", "list", "create", "patch", "delete"]
- apiGroups: [""]
  resources: ["pods"]
  verbs: ["list", "delete"]
- apiGroups: [""]
  resources: ["pods/log"]
  verbs: ["get"]
- apiGroups: [""]
  resources: ["configmaps"]
  verbs: ["get", "create"]
- apiGroups: [""]
  resources: ["events"]
  verbs: ["list", "create"]
- apiGroups: ["serving.kserve.io"]
  resources: ["inferenceservices", "llminferenceservices", "llminferenceserviceconfigs", "servingruntimes", "clusterservingruntimes"]
  verbs: ["get"]
- apiGroups: ["apps"]
  resources: ["deployments"]
  verbs: ["get"]  # whether Pods of a model's previous version are left, which the object does not say
- apiGroups: [""]
  resources: ["services"]
  verbs: ["get"]  # the port of a model's Service, which the object does not always say
{{- end -}}
