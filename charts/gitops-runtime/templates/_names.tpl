{{/* The image of all parts: the registry of the whole installation goes first. */}}
{{- define "slipway.image" -}}
{{- $registry := .Values.global.imageRegistry | default .Values.image.registry -}}
{{- $name := .Values.image.repository -}}
{{- if $registry }}{{ $name = printf "%s/%s" (trimSuffix "/" $registry) $name }}{{ end -}}
{{- if .Values.image.digest -}}
{{ printf "%s@%s" $name .Values.image.digest }}
{{- else -}}
{{ printf "%s:%s" $name (.Values.image.tag | default .Chart.AppVersion) }}
{{- end -}}
{{- end -}}

{{/* What selects the Pods of a part. Takes a list: the root, and the part. */}}
{{- define "slipway.selector" -}}
app.kubernetes.io/name: slipway-{{ index . 1 }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
{{- end -}}

{{/* The agent reports Deployments to the platform by part-of and component. */}}
{{- define "slipway.labels" -}}
{{ include "slipway.selector" . }}
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/part-of: slipway
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ printf "%s-%s" (index . 0).Chart.Name (index . 0).Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* Names of cluster-scoped objects contain the namespace of their runtime. A colon is
in no name of a namespace, so two of them are never the same. */}}
{{- define "slipway.clusterName" -}}
slipway:{{ (index . 0).Release.Namespace }}:{{ index . 1 }}
{{- end -}}

{{/* Where the agent may deliver with singleNamespace, beside the own namespace. */}}
{{- define "slipway.ownNamespaces" -}}
{{- $made := list .Release.Namespace -}}
{{- range .Values.agent.namespaces -}}
{{- if eq . "*" }}{{ fail "agent.namespaces: * is every namespace, and global.runtime.singleNamespace is true: name the namespaces" }}{{ end -}}
{{- $made = append $made . -}}
{{- end -}}
{{ dict "all" (uniq $made) | toJson }}
{{- end -}}
