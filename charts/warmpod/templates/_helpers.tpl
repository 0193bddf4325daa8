{{/* Labels of every object: the same two as in manifests/, and Helm's. */}}
{{- define "warmpod.labels" -}}
{{ include "warmpod.selector" . }}
{{ include "warmpod.helmLabels" . }}
{{- end }}

{{- define "warmpod.selector" -}}
app.kubernetes.io/name: warmpod
app.kubernetes.io/component: operator
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

{{- define "warmpod.subject" -}}
- kind: ServiceAccount
  name: warmpod-operator
  namespace: {{ .Release.Namespace }}
{{- end }}
