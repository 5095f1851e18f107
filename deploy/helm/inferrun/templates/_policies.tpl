{{/*
The specs of the ValidatingAdmissionPolicies. Each takes a dict: protected (namespaces in which the worker may create nothing),
accounts (service accounts that Pods of runs may use), settings (what else they may use) and root.
*/}}

{{- define "inferrun.policy.namespace" -}}
- expression: "!(request.namespace in {{ toJson .protected | replace "\"" "'" }})"
  message: "the worker must not write in this namespace"
{{- end -}}

{{/* What the worker deletes or changes must belong to a run; a Pod belongs to a Job. */}}
{{- define "inferrun.policy.owner" -}}
variables:
  - name: subject
    expression: "request.operation == 'CREATE' ? object : oldObject"
  - name: isOfRun
    expression: >-
      variables.subject.metadata.?ownerReferences.orValue([]).exists(o,
      o.apiVersion == 'ai.krateo.io/v1' && o.kind == 'InferenceRun' && o.?controller.orValue(false))
{{- end -}}

{{- define "inferrun.policy.jobs" -}}
matchConstraints:
  resourceRules:
    - apiGroups: [batch]
      apiVersions: [v1]
      resources: [jobs]
      operations: [CREATE, UPDATE, DELETE]
{{ include "inferrun.policy.owner" . }}
  - name: pod
    expression: variables.subject.spec.template.spec
  - name: containers
    expression: variables.pod.containers + variables.pod.?initContainers.orValue([])
  - name: isCreation
    expression: request.operation == 'CREATE'
  - name: isLeftBehind # by a run that was deleted with --cascade=orphan
    expression: >-
      !variables.isCreation && !variables.subject.metadata.?ownerReferences.orValue([]).exists(o, o.?controller.orValue(false)) &&
      variables.subject.metadata.?labels[?'app.kubernetes.io/managed-by'].orValue('') == 'inferrun' &&
      variables.subject.metadata.?labels[?'inferrun.dev/run-uid'].orValue('') != ''
validations:
  {{- include "inferrun.policy.namespace" . | nindent 2 }}
  - expression: variables.isOfRun || variables.isLeftBehind
    message: "a Job of the worker must be controlled by an InferenceRun"
  - expression: "!variables.isCreation || object.metadata.?labels[?'app.kubernetes.io/managed-by'].orValue('') == 'inferrun'"
    message: "a Job of the worker must have the label app.kubernetes.io/managed-by=inferrun"
  - expression: "request.operation == 'DELETE' || object.spec.?parallelism.orValue(1) <= 64"
    message: "a Job of the worker must not have more than 64 Pods at a time"
  - expression: "!variables.isCreation || size(variables.pod.containers) == 1"
    message: "a Job of the worker must have exactly one container"
  - expression: >-
      !variables.isCreation || !(variables.pod.?hostNetwork.orValue(false) || variables.pod.?hostPID.orValue(false) ||
      variables.pod.?hostIPC.orValue(false))
    message: "Pods of runs must not use namespaces of the host"
  - expression: "!variables.isCreation || variables.pod.?nodeName.orValue('') == ''"
    message: "Pods of runs must be placed by the scheduler"
  - expression: >-
      !variables.isCreation || variables.pod.?volumes.orValue([]).all(v,
      has(v.emptyDir) || has(v.configMap) || has(v.secret) || has(v.persistentVolumeClaim) || has(v.projected))
    message: "Pods of runs must only have volumes of the kinds emptyDir, configMap, secret, persistentVolumeClaim, projected"
  - expression: >-
      !variables.isCreation || variables.pod.?volumes.orValue([]).all(v,
      !has(v.projected) || v.projected.?sources.orValue([]).all(s, has(s.secret) || (has(s.serviceAccountToken) &&
      s.serviceAccountToken.?audience.orValue('') != '' &&
      variables.pod.?serviceAccountName.orValue('default') in {{ toJson .accounts | replace "\"" "'" }})))
    message: "projected volumes of runs must only have Secrets, and tokens for an audience of an allowed service account"
  - expression: >-
      !variables.isCreation || (variables.pod.?securityContext.?runAsNonRoot.orValue(false) &&
      variables.pod.?securityContext.?seccompProfile.?type.orValue('') == 'RuntimeDefault' &&
      variables.pod.?securityContext.?runAsUser.orValue(65532) != 0 &&
      size(variables.pod.?securityContext.?sysctls.orValue([])) == 0)
    message: "Pods of runs must not run as root or set sysctls, and must have the RuntimeDefault seccomp profile"
  - expression: >-
      !variables.isCreation || variables.containers.all(c,
      !c.?securityContext.?privileged.orValue(false) &&
      !c.?securityContext.?allowPrivilegeEscalation.orValue(true) &&
      c.?securityContext.?capabilities.?drop.orValue([]).exists(x, x == 'ALL') &&
      size(c.?securityContext.?capabilities.?add.orValue([])) == 0 &&
      c.?securityContext.?runAsNonRoot.orValue(true) &&
      c.?securityContext.?runAsUser.orValue(65532) != 0 &&
      c.?securityContext.?seccompProfile.?type.orValue('RuntimeDefault') == 'RuntimeDefault' &&
      c.?securityContext.?procMount.orValue('Default') == 'Default' &&
      size(c.?ports.orValue([])) == 0)
    message: "containers of runs must be unprivileged, without capabilities and ports"
  - expression: >-
      !variables.isCreation || variables.pod.?serviceAccountName.orValue('default') in {{ toJson .accounts | replace "\"" "'" }} ||
      (variables.pod.?serviceAccountName.orValue('default') == 'default' &&
      !variables.pod.?automountServiceAccountToken.orValue(true))
    message: "Pods of runs must use an allowed service account (runnerServiceAccount, settings.allowedServiceAccounts) or no token"
  - expression: >-
      !variables.isCreation ||
      variables.pod.?priorityClassName.orValue('') in {{ prepend .settings.allowedPriorityClasses "" | toJson | replace "\"" "'" }}
    message: "Pods of runs must use an allowed priority class (settings.allowedPriorityClasses) or none"
  - expression: >-
      !variables.isCreation ||
      variables.pod.?runtimeClassName.orValue('') in {{ prepend .settings.allowedRuntimeClasses "" | toJson | replace "\"" "'" }}
    message: "Pods of runs must use an allowed runtime class (settings.allowedRuntimeClasses) or none"
  {{- /* GKE adds a toleration for the architecture of the nodes. */}}
  - expression: >-
      !variables.isCreation || variables.pod.?tolerations.orValue([]).all(t, t.?key.orValue('') == 'kubernetes.io/arch' ||
      (t.?key.orValue('*') + '=' + (t.?operator.orValue('Equal') == 'Exists' ? '*' : t.?value.orValue('')) + ':' +
      t.?effect.orValue('*')).matches(r'^({{ join "|" .settings.allowedTolerations | replace "." "\\." | replace "*" ".*" }})$'))
    message: "Pods of runs must have only allowed tolerations (settings.allowedTolerations)"
  - expression: >-
      !variables.isCreation ||
      size(variables.pod.?affinity.?podAntiAffinity.?requiredDuringSchedulingIgnoredDuringExecution.orValue([])) == 0
    message: "Pods of runs must not keep other Pods from nodes"
{{- end -}}

{{- define "inferrun.policy.configmaps" -}}
matchConstraints:
  resourceRules:
    - apiGroups: [""]
      apiVersions: [v1]
      resources: [configmaps]
      operations: [CREATE, UPDATE, DELETE]
{{ include "inferrun.policy.owner" . }}
validations:
  {{- include "inferrun.policy.namespace" . | nindent 2 }}
  - expression: variables.isOfRun
    message: "a ConfigMap of the worker must be controlled by an InferenceRun"
  - expression: "request.operation != 'CREATE' || object.?immutable.orValue(false)"
    message: "a ConfigMap of the worker must be immutable"
{{- end -}}

{{- define "inferrun.policy.pods" -}}
matchConstraints:
  resourceRules:
    - apiGroups: [""]
      apiVersions: [v1]
      resources: [pods]
      operations: [CREATE, UPDATE, DELETE]
validations:
  {{- include "inferrun.policy.namespace" . | nindent 2 }}
  - expression: request.operation == 'DELETE'
    message: "the worker must not create or change Pods"
  - expression: >-
      request.operation != 'DELETE' ||
      (oldObject.metadata.?ownerReferences.orValue([]).all(o, o.apiVersion == 'batch/v1' && o.kind == 'Job') &&
      oldObject.metadata.?labels[?'app.kubernetes.io/managed-by'].orValue('') == 'inferrun')
    message: "the worker must delete only Pods of its Jobs"
{{- end -}}

{{- define "inferrun.policy.networkpolicies" -}}
matchConstraints:
  resourceRules:
    - apiGroups: [networking.k8s.io]
      apiVersions: [v1]
      resources: [networkpolicies]
      operations: [CREATE, UPDATE, DELETE]
validations:
  {{- include "inferrun.policy.namespace" . | nindent 2 }}
  - expression: >-
      request.operation != 'DELETE' && object.metadata.name == '{{ include "inferrun.clusterName" .root }}-runs' &&
      object.spec == {{ include "inferrun.runsNetworkPolicy" .root | fromYaml | include "inferrun.cel" }}
    message: "the worker must write only copies of the release's NetworkPolicy for runs"
{{- end -}}

{{/* The spec of the NetworkPolicy for run Pods as the API server stores it, without empty lists: admission compares it. */}}
{{- define "inferrun.runsNetworkPolicy" -}}
{{- $network := .Values.networkPolicies -}}
podSelector:
  matchLabels:
    app.kubernetes.io/managed-by: inferrun
  matchExpressions:
    - {key: inferrun.dev/run-uid, operator: Exists}
policyTypes: [Ingress, Egress]
egress:
  - ports: # of any address, as local DNS caches of nodes have a link-local one
      - {protocol: UDP, port: 53}
      - {protocol: TCP, port: 53}
  - to:
      - namespaceSelector:
          matchExpressions:
            - key: kubernetes.io/metadata.name
              operator: NotIn
              values: {{ concat $network.runs.deniedNamespaces (list .Release.Namespace $network.temporalFrontend.namespace) | compact | uniq | toJson }}
      {{- range $all, $pattern := dict "0.0.0.0/0" "\\." "::/0" ":" }}
      - ipBlock:
          cidr: {{ $all }}
          {{- $denied := list }}
          {{- range $network.runs.deniedCidrs }}
          {{- if regexMatch $pattern . }}{{ $denied = append $denied . }}{{ end }}
          {{- end }}
          {{- with $denied }}
          except: {{ toJson . }}
          {{- end }}
      {{- end }}
{{- end -}}

{{/* A value as a literal of CEL, which accepts values of different types in one list or map only if they are dyn. */}}
{{- define "inferrun.cel" -}}
{{- if kindIs "map" . -}}
dyn({ {{- range $key, $value := . }}{{ toJson $key }}: {{ include "inferrun.cel" $value }}, {{ end -}} })
{{- else if kindIs "slice" . -}}
dyn([ {{- range . }}{{ include "inferrun.cel" . }}, {{ end -}} ])
{{- else -}}
dyn({{ toJson . }})
{{- end -}}
{{- end -}}
