{{/* Fails if two node groups could select the same node: groups must have different values of one label. */}}
{{- define "pinfold.agent.disjoint" -}}
{{- range $i, $one := . }}
{{- range $j, $other := $ }}
{{- if lt $i $j }}
{{- $disjoint := false }}
{{- range $key, $value := $one.nodeSelector }}
{{- if and (hasKey $other.nodeSelector $key) (ne (get $other.nodeSelector $key) $value) }}
{{- $disjoint = true }}
{{- end }}
{{- end }}
{{- if or (not $disjoint) (eq $one.name $other.name) }}
{{- fail (printf "agent.nodeGroups: %s and %s may select the same node, which must have one agent; give them different names, and different values of one label in nodeSelector" $one.name $other.name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The configuration and the DaemonSet of one node group; the argument is a dict with root, group and config. */}}
{{- define "pinfold.agent.workload" -}}
{{- $part := dict "root" .root "part" "agent" }}
{{- $name := printf "pinfold-agent-%s" .group.name | trimSuffix "-" }}
{{- $manage := ne (get .config "mode" | default "manage") "mirror" }}
{{- $kubelet := dig "kubelet" "rootDirectory" "/var/lib/kubelet" .config }}
{{- $listen := dig "metrics" "listen" "127.0.0.1:9464" .config }}
{{- $rules := mergeOverwrite (deepCopy .root.Values.agent.rules) (deepCopy (.group.rules | default dict)) }}
{{- if $rules }}
{{- if dig "kubelet" "configFile" "" .config }}
{{- fail "agent.rules and agent.config.kubelet.configFile: expected one of them; the chart writes agent.rules to a file and names it" }}
{{- end }}
{{- $_ := set .config "kubelet" (merge (dict "configFile" "/etc/pinfold/rules.yaml") (.config.kubelet | default dict)) }}
{{- end }}
{{- $nri := dig "runtime" "nriSocket" "/var/run/nri/nri.sock" .config }}
{{- $bus := dig "cgroups" "systemdBus" "/run/dbus/system_bus_socket" .config }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "pinfold.labels" $part | nindent 4 }}
data:
  agent.yaml: | {{- toYaml .config | nindent 4 }}
  {{- if $rules }}
  # The policies and reservations by which the agent decides.
  rules.yaml: | {{- toYaml (merge (dict "apiVersion" "kubelet.config.k8s.io/v1beta1" "kind" "KubeletConfiguration") $rules) | nindent 4 }}
  {{- end }}
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{- include "pinfold.labels" $part | nindent 4 }}
spec:
  selector:
    matchLabels: {{- include "pinfold.selector" $part | nindent 6 }}
      {{- with .group.name }}
      pinfold.dev/node-group: {{ . }}
      {{- end }}
  updateStrategy:
    type: RollingUpdate
    rollingUpdate:
      maxUnavailable: {{ .root.Values.agent.maxUnavailable }}
  template:
    metadata:
      labels: {{- include "pinfold.labels" $part | nindent 8 }}
        {{- with .group.name }}
        pinfold.dev/node-group: {{ . }}
        {{- end }}
      annotations:
        # A changed configuration replaces the pods.
        checksum/config: {{ print (toYaml .config) (toYaml $rules) | sha256sum }}
        {{- with .root.Values.agent.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: pinfold-agent
      priorityClassName: {{ .root.Values.agent.priorityClassName | quote }}
      terminationGracePeriodSeconds: 30
      {{- if $manage }}
      # The agent uses the host's process ids of containers.
      hostPID: true
      {{- end }}
      {{- if .root.Values.agent.hostNetwork }}
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      {{- end }}
      {{- with merge (deepCopy .group.nodeSelector) .root.Values.agent.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.agent.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .root.Values.image.pullSecrets }}
      imagePullSecrets:
      {{- range . }}
      - name: {{ . }}
      {{- end }}
      {{- end }}
      containers:
      - name: agent
        image: {{ include "pinfold.image" (dict "root" .root "image" "pinfold-agent") | quote }}
        imagePullPolicy: {{ .root.Values.image.pullPolicy }}
        command: [/usr/bin/pinfold-agent]
        args: [--config, /etc/pinfold/agent.yaml, --log-format, json, --log-level, {{ .root.Values.agent.logLevel }}]
        env:
        # The host name inside of a pod is the pod's name.
        - name: NODE_NAME
          valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
        {{- with .root.Values.agent.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
        securityContext:
          # The kubelet's files are only readable for root.
          runAsUser: 0
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities:
            drop: [ALL]
            {{- if $manage }}
            # SYS_NICE: CPU affinity and memory migration of processes. DAC_OVERRIDE: cgroups of other users.
            add: [SYS_NICE, DAC_OVERRIDE]
            {{- end }}
          seccompProfile: {type: RuntimeDefault}
        resources: {{- toYaml .root.Values.agent.resources | nindent 10 }}
        {{- if ne $listen "none" }}
        ports:
        - name: metrics
          containerPort: {{ include "pinfold.port" $listen }}
        livenessProbe:
          httpGet: {path: /healthz, port: metrics}
          periodSeconds: 20
        readinessProbe:
          httpGet: {path: /readyz, port: metrics}
          periodSeconds: 5
        {{- end }}
        volumeMounts:
        - {name: config, mountPath: /etc/pinfold, readOnly: true}
        - {name: run, mountPath: /run/pinfold}
        - {name: kubelet, mountPath: {{ $kubelet }}, readOnly: true}
        {{- if $manage }}
        - {name: state, mountPath: {{ get $.config "stateDirectory" | default "/var/lib/pinfold" }}}
        - {name: cgroup, mountPath: /sys/fs/cgroup}
        {{- if ne $nri "none" }}
        - {name: nri, mountPath: {{ dir $nri }}}
        {{- end }}
        {{- if ne $bus "none" }}
        # systemd gets the changes of its slices and scopes over the system bus.
        - {name: dbus, mountPath: {{ dir $bus }}, readOnly: true}
        {{- end }}
        {{- end }}
        {{- with .root.Values.agent.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      volumes:
      - name: config
        configMap: {name: {{ $name }}}
      - name: run
        hostPath: {path: /run/pinfold, type: DirectoryOrCreate}
      - name: kubelet
        hostPath: {path: {{ $kubelet }}}
      {{- if $manage }}
      - name: state
        hostPath: {path: {{ get $.config "stateDirectory" | default "/var/lib/pinfold" }}, type: DirectoryOrCreate}
      - name: cgroup
        hostPath: {path: /sys/fs/cgroup}
      {{- if ne $nri "none" }}
      - name: nri
        hostPath: {path: {{ dir $nri }}, type: DirectoryOrCreate}
      {{- end }}
      {{- if ne $bus "none" }}
      - name: dbus
        hostPath: {path: {{ dir $bus }}, type: DirectoryOrCreate}
      {{- end }}
      {{- end }}
      {{- with .root.Values.agent.extraVolumes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
{{ end }}
