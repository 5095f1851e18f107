{{/* What the shim may do: see both resources, write their status. No rule has a wildcard, none names Secrets. */}}
{{- define "inferrun.rules.shim" -}}
- apiGroups: ["ai.krateo.io"]
  resources: ["inferenceruns", "inferenceconfigs"]
  verbs: ["get", "list", "watch"]
- apiGroups: ["ai.krateo.io"]
  resources: ["inferenceruns"]
  verbs: ["patch"]  # takes the Krateo controller's finalizer off a run that is being deleted
- apiGroups: ["ai.krateo.io"]
  resources: ["inferenceruns/status", "inferenceconfigs/status"]
  verbs: ["patch"]
{{- end -}}

{{/*
What the worker may do: make, follow and end the Jobs of runs, write their status, make runs for schedules and programs,
delete those whose policy asks for it.
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
  verbs: ["get", "list", "watch", "create", "patch", "delete"]
- apiGroups: [""]
  resources: ["pods"]
  verbs: ["get", "list", "watch", "delete"]
- apiGroups: [""]
  resources: ["pods/log"]
  verbs: ["get"]
- apiGroups: [""]
  resources: ["configmaps"]
  verbs: ["get", "create"]
- apiGroups: [""]
  resources: ["events"]
  verbs: ["list", "create"]
{{- end -}}
