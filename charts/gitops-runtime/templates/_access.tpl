{{/* How the runtime is reached: one rule, as slipway helm validate has it. */}}
{{- define "slipway.mode" -}}
{{- $runtime := .Values.global.runtime -}}
{{- $tunnel := toString (get (index .Values "tunnel-client" | default dict) "enabled") -}}
{{- if and $runtime.ingress.enabled $runtime.httpRoute.enabled -}}
{{- fail "global.runtime.ingress.enabled and global.runtime.httpRoute.enabled are both true, and a runtime is reached one way: set one of them to false" -}}
{{- end -}}
{{- if and (eq $tunnel "true") (or $runtime.ingress.enabled $runtime.httpRoute.enabled) -}}
{{- fail "tunnel-client.enabled and an Ingress or HTTPRoute are both on, and a runtime is reached one way: set one of them to false" -}}
{{- end -}}
{{- if $runtime.ingress.enabled -}}
{{- if not $runtime.ingress.hosts }}{{ fail "global.runtime.ingress.hosts is empty, and an Ingress needs a host: name one or more" }}{{ end -}}
{{- if not $runtime.ingress.className }}{{ fail "global.runtime.ingress.className is missing, and an Ingress needs a class: kubectl get ingressclass lists them" }}{{ end -}}
ingress
{{- else if $runtime.httpRoute.enabled -}}
{{- if not $runtime.httpRoute.hostnames }}{{ fail "global.runtime.httpRoute.hostnames is empty, and an HTTPRoute needs a hostname: name one or more" }}{{ end -}}
{{- if not $runtime.httpRoute.parentRefs }}{{ fail "global.runtime.httpRoute.parentRefs is empty, and an HTTPRoute needs a Gateway: name it" }}{{ end -}}
httpRoute
{{- else if and $runtime.ingressUrl (eq $tunnel "false") -}}
mesh
{{- else if $runtime.ingressUrl -}}
{{- fail "global.runtime.ingressUrl is set, and the tunnel is not off: set tunnel-client.enabled to false for a service mesh, or leave ingressUrl out" -}}
{{- else if eq $tunnel "false" -}}
{{- fail "tunnel-client.enabled is false, and there is neither an Ingress nor an HTTPRoute nor global.runtime.ingressUrl: the runtime could not be reached" -}}
{{- else -}}
tunnel
{{- end -}}
{{- end -}}

{{/* Where the platform reaches the runtime; empty for the tunnel. */}}
{{- define "slipway.accessURL" -}}
{{- $runtime := .Values.global.runtime -}}
{{- $mode := include "slipway.mode" . -}}
{{- if eq $mode "ingress" -}}
{{- $host := first $runtime.ingress.hosts -}}
{{- if contains ":" $host }}{{ $host = printf "[%s]" $host }}{{ end -}}
{{ $runtime.ingress.protocol }}://{{ $host }}
{{- else if eq $mode "httpRoute" -}}
{{ $runtime.httpRoute.protocol }}://{{ first $runtime.httpRoute.hostnames }}
{{- else if eq $mode "mesh" -}}
{{ trimSuffix "/" $runtime.ingressUrl }}
{{- end -}}
{{- end -}}

{{/* The labels of objects that lead to the router. Takes a list: the root, and the
labels that were given. */}}
{{- define "slipway.accessLabels" -}}
{{ merge (dict "app.kubernetes.io/managed-by" (index . 0).Release.Service "slipway.dev/runtime" (index . 0).Values.global.runtime.name) (index . 1 | default dict) | toYaml }}
{{- end -}}
