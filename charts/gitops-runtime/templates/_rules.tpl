{{/* What the agent does itself, where it delivers. */}}
{{- define "slipway.agentRules" -}}
# What is to be live. The status, and the operation that has begun, are written
# into the Application; ApplicationSets make Applications and delete them.
- apiGroups: [argoproj.io]
  resources: [applications]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [argoproj.io]
  resources: [appprojects, applicationsets]
  verbs: [get, list, watch]
- apiGroups: [argoproj.io]
  resources: [applicationsets, applicationsets/status]
  verbs: [patch]
# Where the API server enforces who may say that an object belongs to another.
- apiGroups: [argoproj.io]
  resources: [applicationsets/finalizers]
  verbs: [update]
# What is live: the kinds that Applications have, and of these only objects with
# the label slipway.dev/app. Kubernetes has no smaller right for that.
- apiGroups: ["*"]
  resources: ["*"]
  verbs: [get, list, watch]
# Objects are applied as the ServiceAccount that the AppProject names.
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [impersonate]
# What happened, for whoever looks at an Application.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}

{{/* What the edge reads and writes where it serves. Takes a list: the root, and
whether it is a whole cluster. */}}
{{- define "slipway.edgeRules" -}}
- apiGroups: [networking.k8s.io]
  resources: [ingresses{{ if index . 1 }}, ingressclasses{{ end }}]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [services]
  verbs: [list, watch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [list, watch]
{{- if index . 1 }}
# Nodes: their zones, for topology hints, and their addresses, for node ports.
- apiGroups: [""]
  resources: [nodes]
  verbs: [list, watch]
{{- end }}
# Secrets are listed and watched without their data. The data is read of those
# that an Ingress, or what it names, names. Kubernetes has no smaller right.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch]
- apiGroups: [slipway.dev]
  resources: [middlewares, tlsoptions, backendtransports]
  verbs: [list, watch]
{{- if (index . 0).Values.edge.traefikObjects }}
- apiGroups: [traefik.io]
  resources: [middlewares, tlsoptions, serverstransports]
  verbs: [list, watch]
{{- end }}
# What is written back: the addresses, and why something is refused.
- apiGroups: [networking.k8s.io]
  resources: [ingresses/status]
  verbs: [patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}
