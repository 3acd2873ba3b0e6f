{{/* The value at a path with dots, as JSON {"v": …}. Takes a list: a map, a path. */}}
{{- define "slipway.at" -}}
{{- $at := index . 0 -}}
{{- range splitList "." (index . 1) -}}
{{- if kindIs "map" $at }}{{ $at = get $at . }}{{ else }}{{ $at = "" }}{{ end -}}
{{- end -}}
{{ dict "v" $at | toJson }}
{{- end -}}

{{/* global.platform with global.codefresh as another spelling: a flat map of paths,
as JSON. */}}
{{- define "slipway.platform" -}}
{{- $own := .Values.global.platform | default dict -}}
{{- $other := .Values.global.codefresh | default dict -}}
{{- $flat := dict -}}
{{- $known := dict "url" "" "accountId" "" "userToken.token" "" "userToken.secretKeyRef.name" "" "userToken.secretKeyRef.key" "token"
  "tls.caCerts.secretKeyRef.name" "" "tls.caCerts.secretKeyRef.key" "ca-bundle.crt" "tls.caCerts.secret.create" false
  "tls.caCerts.secret.key" "ca-bundle.crt" "tls.caCerts.secret.annotations" dict "tls.caCerts.secret.content" "" -}}
{{- range $path, $default := $known -}}
{{- $first := (include "slipway.at" (list $own $path) | fromJson).v -}}
{{- $second := (include "slipway.at" (list $other $path) | fromJson).v -}}
{{- $changed := and $first (ne (toJson $first) (toJson $default)) -}}
{{- if and $second (ne (toJson $second) (toJson $default)) -}}
{{- if and $changed (ne (toJson $first) (toJson $second)) -}}
{{- fail (printf "global.platform.%s and global.codefresh.%s are two spellings of one value, and differ: keep global.platform.%s" $path $path $path) -}}
{{- end -}}
{{- $first = $second -}}
{{- end -}}
{{- $_ := set $flat $path ($first | default $default) -}}
{{- end -}}
{{- $_ := set $flat "enabled" (ne (toString $own.enabled) "false") -}}
{{- $_ := set $flat "allowHTTP" ($own.allowHTTP | default false) -}}
{{- if index $flat "enabled" -}}
{{- if not (index $flat "url") -}}
{{- fail "global.platform.url is missing: write the URL of the platform that the runtime joins, or set global.platform.enabled to false for a runtime of its own" -}}
{{- end -}}
{{- if and (index $flat "userToken.token") (index $flat "userToken.secretKeyRef.name") -}}
{{- fail "global.platform.userToken has both token and secretKeyRef: keep one of them" -}}
{{- end -}}
{{- if has (index $flat "userToken.secretKeyRef.name") (list "slipway-token" "codefresh-token") -}}
{{- fail (printf "global.platform.userToken.secretKeyRef.name: %s is the Secret that a runtime keeps its own credential in: choose another name" (index $flat "userToken.secretKeyRef.name")) -}}
{{- end -}}
{{- end -}}
{{ $flat | toJson }}
{{- end -}}

{{/* The Secret with the API key: {"name", "key"}, empty when there is none. */}}
{{- define "slipway.tokenRef" -}}
{{- $platform := include "slipway.platform" . | fromJson -}}
{{- $made := dict "name" "" "key" "token" -}}
{{- if not $platform.enabled -}}
{{- else if index $platform "userToken.token" -}}
{{- $_ := set $made "name" "slipway-user-token" -}}
{{- else if index $platform "userToken.secretKeyRef.name" -}}
{{- $made = dict "name" (index $platform "userToken.secretKeyRef.name") "key" (index $platform "userToken.secretKeyRef.key") -}}
{{- end -}}
{{ $made | toJson }}
{{- end -}}

{{/* The Secret with the Git runtime token, when its server is known, by the URL or by
the settings of the account: {"name", "key"}. */}}
{{- define "slipway.gitRef" -}}
{{- $git := .Values.global.runtime.gitCredentials -}}
{{- $made := dict "name" "" "key" "" -}}
{{- if or $git.url (include "slipway.platform" . | fromJson).enabled -}}
{{- if $git.password.value -}}
{{- $made = dict "name" "slipway-git-credentials" "key" "password" -}}
{{- else if $git.password.secretKeyRef.name -}}
{{- $made = dict "name" $git.password.secretKeyRef.name "key" $git.password.secretKeyRef.key -}}
{{- end -}}
{{- end -}}
{{ $made | toJson }}
{{- end -}}

{{/* The Secret with authorities for the platform: {"name", "key"}. */}}
{{- define "slipway.authoritiesRef" -}}
{{- $platform := include "slipway.platform" . | fromJson -}}
{{- $made := dict "name" "" "key" "" -}}
{{- if not $platform.enabled -}}
{{- else if index $platform "tls.caCerts.secret.create" -}}
{{- if index $platform "tls.caCerts.secretKeyRef.name" }}{{ fail "global.platform.tls.caCerts has both secretKeyRef and secret.create: keep one of them" }}{{ end -}}
{{- if not (index $platform "tls.caCerts.secret.content") }}{{ fail "global.platform.tls.caCerts.secret.content is missing, and create is true: write the authorities in PEM" }}{{ end -}}
{{- $made = dict "name" "slipway-tls-certs" "key" (index $platform "tls.caCerts.secret.key") -}}
{{- else if index $platform "tls.caCerts.secretKeyRef.name" -}}
{{- $made = dict "name" (index $platform "tls.caCerts.secretKeyRef.name") "key" (index $platform "tls.caCerts.secretKeyRef.key") -}}
{{- end -}}
{{ $made | toJson }}
{{- end -}}
