{{/* The image: the registry of the whole installation goes first. */}}
{{- define "platform.image" -}}
{{- $registry := .Values.global.imageRegistry | default .Values.image.registry -}}
{{- $name := .Values.image.repository -}}
{{- if $registry }}{{ $name = printf "%s/%s" (trimSuffix "/" $registry) $name }}{{ end -}}
{{- if .Values.image.digest -}}
{{ printf "%s@%s" $name .Values.image.digest }}
{{- else -}}
{{ printf "%s:%s" $name (.Values.image.tag | default .Chart.AppVersion) }}
{{- end -}}
{{- end -}}

{{- define "platform.selector" -}}
app.kubernetes.io/name: slipway-platform
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "platform.labels" -}}
{{ include "platform.selector" . }}
app.kubernetes.io/component: platform
app.kubernetes.io/part-of: slipway
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{/* What contradicts itself is refused before anything is made. */}}
{{- define "platform.check" -}}
{{- if not .Values.publicURL }}{{ fail "publicURL is missing: write the URL under which the platform is reached, such as https://slipway.example.com" }}{{ end -}}
{{- $postgres := .Values.database.urlSecretKeyRef.name -}}
{{- if and (gt (int .Values.replicas) 1) (not $postgres) -}}
{{- fail "replicas is more than 1, and SQLite is for one: set database.urlSecretKeyRef for PostgreSQL, or replicas to 1" -}}
{{- end -}}
{{- if and $postgres (not .Values.keySecretRef.name) -}}
{{- fail "keySecretRef.name is missing, and PostgreSQL needs it: kubectl create secret generic slipway-platform-key --from-literal=key=$(openssl rand -hex 32)" -}}
{{- end -}}
{{- if and (gt (int .Values.replicas) 1) .Values.tls.secretName -}}
{{- fail "replicas is more than 1, and tls.secretName is set: replicas reach each other by address, which no certificate is for. Let an Ingress end TLS" -}}
{{- end -}}
{{- if and (ne .Values.service.type "ClusterIP") (not .Values.tls.secretName) -}}
{{- fail (printf "service.type is %s, and tls.secretName is missing: API keys would travel in the open. Set it, or use an Ingress" .Values.service.type) -}}
{{- end -}}
{{- if and .Values.ingress.enabled .Values.tls.secretName -}}
{{- fail "ingress.enabled is true, and tls.secretName is set: one of them ends TLS" -}}
{{- end -}}
{{- if and .Values.ingress.enabled (not .Values.ingress.className) -}}
{{- fail "ingress.className is missing, and an Ingress needs a class: kubectl get ingressclass lists them" -}}
{{- end -}}
{{- end -}}
