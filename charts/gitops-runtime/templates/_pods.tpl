{{/* Where Pods run, and with which rights: the strictest standard that Kubernetes
has. Takes a list: the root, the part, and the values of the part. */}}
{{- define "slipway.podBasics" -}}
{{- $root := index . 0 -}}
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  # Without it every mount opens folders to the group that are for the owner alone.
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- with $root.Values.global.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- with $root.Values.global.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.global.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $root.Values.global.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- end -}}

{{- define "slipway.spread" -}}
{{- with (index . 2).affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "slipway.selector" $ | nindent 8 }}
  {{- end }}
{{- end -}}

{{- define "slipway.containerBasics" -}}
image: {{ include "slipway.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end -}}

{{- define "slipway.probes" -}}
readinessProbe:
  httpGet:
    path: /readyz
    port: health
  periodSeconds: 2
livenessProbe:
  httpGet:
    path: /healthz
    port: health
  periodSeconds: 10
{{- end -}}

{{/* Proxies may have passwords: they come from a Secret. The API server of the
cluster is never behind one. */}}
{{- define "slipway.proxyEnv" -}}
{{- $global := .Values.global -}}
{{- if or $global.httpProxy $global.httpsProxy }}
{{- if $global.httpProxy }}
- name: HTTP_PROXY
  valueFrom:
    secretKeyRef: {name: slipway-proxy, key: httpProxy}
{{- end }}
{{- if $global.httpsProxy }}
- name: HTTPS_PROXY
  valueFrom:
    secretKeyRef: {name: slipway-proxy, key: httpsProxy}
{{- end }}
- name: NO_PROXY
  value: {{ printf "%slocalhost,127.0.0.1,.svc,.cluster.local,$(KUBERNETES_SERVICE_HOST)" (empty $global.noProxy | ternary "" (printf "%s," $global.noProxy)) | quote }}
{{- end }}
{{- end -}}
