{{/* Name of all objects of the release: "inferrun", or "<release>-inferrun". */}}
{{- define "inferrun.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Name of cluster-scoped objects, which includes the namespace because release names are unique only within one. */}}
{{- define "inferrun.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "inferrun.fullname" .) -}}
{{- end -}}

{{/*
The id of this installation within its cluster; at most 26 characters, because a label contains it together with the cluster's UID.
*/}}
{{- define "inferrun.release" -}}
{{- $name := printf "%s.%s" .Release.Namespace .Release.Name -}}
{{- if gt (len $name) 26 -}}
{{- printf "%s-%s" ($name | trunc 17) ($name | sha256sum | trunc 8) -}}
{{- else -}}
{{- $name -}}
{{- end -}}
{{- end -}}

{{/* Address of Temporal, and that of its UI: without one of its own, that of the development server's UI while it is forwarded. */}}
{{- define "inferrun.temporalAddress" -}}
{{- $own := .Values.temporal.dev.enabled | ternary (printf "%s-temporal.%s:7233" (include "inferrun.fullname" .) .Release.Namespace) "" -}}
{{- .Values.temporal.address | default $own -}}
{{- end -}}
{{- define "inferrun.temporalUi" -}}
{{- .Values.temporal.uiUrl | default (.Values.temporal.dev.enabled | ternary "http://localhost:8233" "") -}}
{{- end -}}

{{/* The watched namespaces as a JSON list, which is empty if all are watched. */}}
{{- define "inferrun.watched" -}}
{{- $given := .Values.watchNamespace -}}
{{- (kindIs "slice" $given | ternary $given (list $given)) | compact | toJson -}}
{{- end -}}

{{/* The user names of the service accounts of shim and worker, as a list in CEL. */}}
{{- define "inferrun.users" -}}
{{- $prefix := printf "system:serviceaccount:%s:%s" .Release.Namespace (include "inferrun.fullname" .) -}}
{{- printf "['%s-shim', '%s-worker']" $prefix $prefix -}}
{{- end -}}

{{- define "inferrun.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}
