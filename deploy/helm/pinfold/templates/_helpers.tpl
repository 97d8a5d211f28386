{{/* The labels of one component; the argument is a dict with root and part. */}}
{{- define "pinfold.labels" -}}
app.kubernetes.io/name: pinfold
app.kubernetes.io/component: {{ .part }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{/* The selector labels of one component. They never change. */}}
{{- define "pinfold.selector" -}}
app.kubernetes.io/name: pinfold
app.kubernetes.io/component: {{ .part }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- end }}

{{/* The image of one program; the argument is a dict with root and image. */}}
{{- define "pinfold.image" -}}
{{ .root.Values.image.registry }}/{{ .image }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}
{{- end }}

{{/* Who may connect to a port: those of networkPolicy.metricsFrom, and no other peer. */}}
{{- define "pinfold.ingress" -}}
{{- if .root.Values.networkPolicy.metricsFrom }}
ingress:
- ports: {{- range .ports }}
  - port: {{ . }}
  {{- end }}
  from: {{- toYaml .root.Values.networkPolicy.metricsFrom | nindent 2 }}
{{- else }}
ingress: []
{{- end }}
{{- end }}

{{/* A ServiceMonitor for the metrics Service of one component. */}}
{{- define "pinfold.serviceMonitor" -}}
{{- with .root.Values.metrics.serviceMonitor }}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: pinfold-{{ $.part }}
  namespace: {{ $.root.Release.Namespace }}
  labels: {{- include "pinfold.labels" $ | nindent 4 }}
    {{- with .labels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  selector:
    matchLabels: {{- include "pinfold.selector" $ | nindent 6 }}
  endpoints:
  - port: metrics
    interval: {{ .interval }}
    {{- if eq $.part "agent" }}
    # The dashboard and the alerts name nodes.
    relabelings:
    - sourceLabels: [__meta_kubernetes_pod_node_name]
      targetLabel: node
    {{- end }}
{{- end }}
{{- end }}

{{/* The RBAC objects of a file of deploy/, in the namespace of the release. */}}
{{- define "pinfold.rbac" -}}
{{- range $text := regexSplit "(?m)^---$" (.root.Files.Get .file) -1 }}
{{- $object := fromYaml $text }}
{{- if and $object (ne (toString $object.kind) "Namespace") }}
{{- if hasKey $object.metadata "namespace" }}
{{- $_ := set $object.metadata "namespace" $.root.Release.Namespace }}
{{- end }}
{{- range $subject := $object.subjects }}
{{- $_ := set $subject "namespace" $.root.Release.Namespace }}
{{- end }}
{{- $_ := set $object.metadata "labels" (fromYaml (include "pinfold.labels" $)) }}
---
{{ toYaml $object }}
{{ end }}
{{- end }}
{{- end }}

{{/* The engine's configuration: the values, and the fields that the chart sets. */}}
{{- define "pinfold.scheduler.config" -}}
{{- $own := dict
  "socket" "/run/pinfold/scheduler/engine.sock"
  "metrics" (dict "listen" "0.0.0.0:9466")
  "kubernetes" (dict "kubeconfig" "inCluster") }}
{{- toYaml (mergeOverwrite (deepCopy .Values.scheduler.config) $own) }}
{{- end }}

{{/* The configuration of kube-scheduler. Pinfold runs before DefaultPreemption and DefaultBinder. */}}
{{- define "pinfold.scheduler.profile" -}}
{{- $enabled := dict "enabled" (list (dict "name" "Pinfold")) }}
{{- $args := mergeOverwrite (deepCopy .Values.scheduler.pluginArgs) (dict "socket" "/run/pinfold/scheduler/engine.sock") }}
{{- toYaml (dict
  "apiVersion" "kubescheduler.config.k8s.io/v1"
  "kind" "KubeSchedulerConfiguration"
  "leaderElection" (dict "leaderElect" true "resourceName" "pinfold-scheduler" "resourceNamespace" .Release.Namespace)
  "profiles" (list (dict
    "schedulerName" .Values.scheduler.name
    "plugins" (dict "multiPoint" $enabled "postFilter" $enabled "bind" $enabled)
    "pluginConfig" (list (dict "name" "Pinfold" "args" $args))))) }}
{{- end }}

{{/* The port of an address such as 0.0.0.0:9464 or [::]:9464. */}}
{{- define "pinfold.port" -}}
{{ regexFind "[0-9]+$" . }}
{{- end }}
