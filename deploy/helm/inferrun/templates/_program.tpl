{{/*
The Deployment of a program. Takes a dict: root, component, module, settings (the component's values), env (a list of additional
environment variables).
*/}}
{{- define "inferrun.program" -}}
{{- $root := .root -}}
{{- $name := printf "%s-%s" (include "inferrun.fullname" $root) .component -}}
{{- $temporal := $root.Values.temporal -}}
{{- $address := include "inferrun.temporalAddress" $root -}}
{{- if not (or $address $temporal.envFromSecret) -}}
{{- fail "temporal.address is not set; set it to the address (host:port) of Temporal's frontend, for example: --set temporal.address=temporal-frontend.temporal:7233; or start a server for a trial: --set temporal.dev.enabled=true" -}}
{{- end -}}
{{- $selected := dict "app.kubernetes.io/name" $root.Chart.Name "app.kubernetes.io/instance" $root.Release.Name "app.kubernetes.io/component" .component -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "inferrun.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  replicas: {{ .settings.replicas }}
  selector:
    matchLabels:
      {{- toYaml $selected | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "inferrun.labels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .component }}
      {{- with $root.Values.podAnnotations }}
      annotations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ $name }}
      terminationGracePeriodSeconds: 30
      {{- with $root.Values.images.pullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        {{- if $root.Values.podSecurity.fixedUser }}
        runAsUser: 65532
        runAsGroup: 65532
        {{- end }}
        seccompProfile:
          type: RuntimeDefault
      containers:
        - name: {{ .component }}
          image: {{ $root.Values.images.control }}
          imagePullPolicy: IfNotPresent
          command: ["python", "-m", {{ .module | quote }}]
          env:
            - name: POD_NAME
              valueFrom:
                fieldRef:
                  fieldPath: metadata.name
            - name: POD_NAMESPACE
              valueFrom:
                fieldRef:
                  fieldPath: metadata.namespace
            - name: TEMPORAL_METRICS_PORT
              value: "8081"
            - name: INFERRUN_RELEASE
              value: {{ include "inferrun.release" $root | quote }}
            - name: INFERRUN_TASK_QUEUE
              value: {{ $temporal.taskQueue | quote }}
            - name: WATCH_NAMESPACE
              value: {{ include "inferrun.watched" $root | fromJsonArray | join "," | quote }}
            - name: SA_RUNNER
              value: {{ $root.Values.runnerServiceAccount | quote }}
            {{- with $address }}
            - name: TEMPORAL_ADDRESS
              value: {{ . | quote }}
            {{- end }}
            {{- with $temporal.namespace }}
            - name: TEMPORAL_NAMESPACE
              value: {{ . | quote }}
            {{- end }}
            {{- with include "inferrun.temporalUi" $root }}
            - name: TEMPORAL_UI_URL
              value: {{ . | quote }}
            {{- end }}
            {{- with $temporal.tls }}
            {{- if .secret }}
            - name: TEMPORAL_TLS_CLIENT_CERT_PATH
              value: /etc/inferrun/temporal/tls.crt
            - name: TEMPORAL_TLS_CLIENT_KEY_PATH
              value: /etc/inferrun/temporal/tls.key
            {{- with .serverAuthority }}
            - name: TEMPORAL_TLS_SERVER_CA_CERT_PATH
              value: /etc/inferrun/temporal/{{ . }}
            {{- end }}
            {{- with .serverName }}
            - name: TEMPORAL_TLS_SERVER_NAME
              value: {{ . | quote }}
            {{- end }}
            {{- end }}
            {{- end }}
            {{- if $temporal.codecSecret }}
            - name: INFERRUN_CODEC_KEYS
              value: /etc/inferrun/codec
            {{- end }}
            {{- with $root.Values.traces }}
            {{- if .endpoint }}
            - name: OTEL_EXPORTER_OTLP_ENDPOINT
              value: {{ .endpoint | quote }}
            - name: OTEL_TRACES_SAMPLER_ARG
              value: {{ .ratio | quote }}
            {{- end }}
            {{- end }}
            {{- range .env }}
            - name: {{ .name }}
              value: {{ .value | quote }}
            {{- end }}
            {{- with $root.Values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          {{- with $temporal.envFromSecret }}
          envFrom:
            - secretRef:
                name: {{ . }}
          {{- end }}
          ports:
            - name: health
              containerPort: 8080
            - name: sdk-metrics
              containerPort: 8081
          livenessProbe:
            httpGet:
              path: /livez
              port: health
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet:
              path: /readyz
              port: health
            periodSeconds: 5
            timeoutSeconds: 5
          startupProbe:
            httpGet:
              path: /livez
              port: health
            periodSeconds: 2
            timeoutSeconds: 5
            failureThreshold: 60
          resources:
            {{- toYaml .settings.resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: ["ALL"]
          volumeMounts:
            - name: config
              mountPath: /etc/inferrun/config
              readOnly: true
            - name: tmp
              mountPath: /tmp
            {{- if $temporal.tls.secret }}
            - name: temporal
              mountPath: /etc/inferrun/temporal
              readOnly: true
            {{- end }}
            {{- if $temporal.codecSecret }}
            - name: codec
              mountPath: /etc/inferrun/codec
              readOnly: true
            {{- end }}
      volumes:
        - name: config
          configMap:
            name: inferrun-config
        - name: tmp
          emptyDir: {}
        {{- with $temporal.tls.secret }}
        - name: temporal
          secret:
            secretName: {{ . }}
        {{- end }}
        {{- with $temporal.codecSecret }}
        - name: codec
          secret:
            secretName: {{ . }}
        {{- end }}
      {{- with $root.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $root.Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      topologySpreadConstraints:
        {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
        - topologyKey: {{ . }}
          maxSkew: 1
          whenUnsatisfiable: ScheduleAnyway
          matchLabelKeys: [pod-template-hash]
          labelSelector:
            matchLabels:
              {{- toYaml $selected | nindent 14 }}
        {{- end }}
{{- if gt (int .settings.replicas) 1 }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "inferrun.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow # Pods that wait for Temporal must not keep a node from being drained
  selector:
    matchLabels:
      {{- toYaml $selected | nindent 6 }}
{{- end }}
{{- end -}}
