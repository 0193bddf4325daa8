{{/* Labels of every object: the one of manifests/, and Helm's. */}}
{{- define "warmpod.labels" -}}
{{ include "warmpod.selector" . }}
{{ include "warmpod.helmLabels" . }}
{{- end }}

{{- define "warmpod.selector" -}}
app.kubernetes.io/name: warmpod-operator
{{- end }}

{{- define "warmpod.helmLabels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "warmpod.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag }}{{ end }}
{{- end -}}
{{- end }}

{{/* The namespaces to work in, none for all. The operator watches its Lease, so its own is one of them. */}}
{{- define "warmpod.namespaces" -}}
{{- with .Values.watchNamespaces }}
{{- append . $.Release.Namespace | uniq | sortAlpha | toYaml }}
{{- else -}}
[]
{{- end }}
{{- end }}

{{- define "warmpod.subject" -}}
- kind: ServiceAccount
  name: warmpod-operator
  namespace: {{ .Release.Namespace }}
{{- end }}
