{{- /* The labels of an object. Takes a list of the context and the name: kubegc or kubegc-controller. */ -}}
{{- define "kubegc.labels" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ index . 1 }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "kubegc.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{- /* The directories of the host, as JSON: runtime, images, kubelet. */ -}}
{{- define "kubegc.paths" -}}
{{- $paths := get (.Files.Get "distributions.yaml" | fromYaml) .Values.distribution -}}
{{- range $name, $path := .Values.hostPaths -}}
{{- if $path }}{{ $_ := set $paths $name $path }}{{ end -}}
{{- end -}}
{{- $paths | toJson -}}
{{- end }}

{{- /* The port of an address that other machines reach, otherwise nothing. */ -}}
{{- define "kubegc.port" -}}
{{- if and . (not (hasPrefix "127." .)) (not (hasPrefix "[::1]" .)) }}{{ splitList ":" . | last }}{{ end -}}
{{- end }}

{{- /* The data of the agent's ConfigMap. */ -}}
{{- define "kubegc.agentData" -}}
{{- $kubelet := (include "kubegc.paths" . | fromJson).kubelet -}}
kubegc.toml: |
  # Other settings have their defaults; `kubegc config default` prints them all.
  host_root = "/host"
  mode = "observe"
  leftovers.remove = []
  {{- if ne $kubelet "/var/lib/kubelet" }}
  kubelet_root = {{ $kubelet | quote }}
  {{- end }}

  [pods]
  source = {{ .Values.podSource | quote }}
{{- include "kubegc.valuesData" .Values.config }}
{{- end }}

{{- /* The data of the controller's ConfigMap. The Role permits the Lease in the namespace of the release only. */ -}}
{{- define "kubegc.controllerData" -}}
kubegc.toml: |
  # Other settings have their defaults; `kubegc config default` prints them all.
  mode = "observe"
  controller.lease_namespace = {{ .Release.Namespace | quote }}
{{- include "kubegc.valuesData" .Values.controller.config }}
{{- end }}

{{- define "kubegc.valuesData" -}}
{{- with . }}
values.toml: |
  {{- . | trim | nindent 2 }}
{{- end -}}
{{- end }}

{{- /* The Secret with the kubeconfig of the controller, or nothing. With --reuse-values the values are those of an earlier release, which
may lack a key: a map that came later is read with a default. */ -}}
{{- define "kubegc.kubeconfigSecret" -}}
{{- dig "kubeconfig" "secretName" "" .Values.controller -}}
{{- end }}

{{- /* The volume of a ConfigMap. Takes a list of its name and the text of `config`. */ -}}
{{- define "kubegc.configVolume" -}}
- name: config
  configMap:
    name: {{ index . 0 }}
    {{- if index . 1 }}
    items:
      - key: kubegc.toml
        path: kubegc.toml
      - key: values.toml
        path: conf.d/values.toml
    {{- end }}
{{- end }}

{{- /* The argument that `config` does not override. */ -}}
{{- define "kubegc.mode" -}}
- --mode={{ ternary "observe" "collect" .Values.dryRun }}
{{- end }}

{{- /* The port and the probes of a container. Takes its address. */ -}}
{{- define "kubegc.probes" -}}
{{- with include "kubegc.port" . -}}
ports:
  - name: metrics
    containerPort: {{ . }}
{{- range $probe, $path := dict "livenessProbe" "/livez" "readinessProbe" "/readyz" }}
{{ $probe }}:
  httpGet:
    path: {{ $path }}
    port: metrics
  periodSeconds: 30
  timeoutSeconds: 5
{{- end }}
{{- end -}}
{{- end }}
