{{/* Not empty if the agent reconciles Rollouts. */}}
{{- define "slipway.servesRollouts" -}}
{{- $given := dig "rollouts" (dict) .Values.agent.config }}
{{- if and (kindIs "map" $given) (dig "enabled" false $given) }}yes{{ end }}
{{- end -}}

{{/* Not empty if the replicas of the agent divide the Applications. */}}
{{- define "slipway.divides" -}}
{{- $given := dig "applications" (dict) .Values.agent.config }}
{{- if and (kindIs "map" $given) (dig "divide" false $given) }}yes{{ end }}
{{- end -}}

{{/* What the agent does itself, where it delivers. */}}
{{- define "slipway.agentRules" -}}
# The desired state. The agent writes the status and the operation into the
# Application; ApplicationSets create and delete Applications.
- apiGroups: [argoproj.io]
  resources: [applications]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [argoproj.io]
  resources: [appprojects, applicationsets]
  verbs: [get, list, watch]
- apiGroups: [argoproj.io]
  resources: [applications/status, applicationsets, applicationsets/status]
  verbs: [patch]
# Required if the API server enforces permissions for owner references
# (OwnerReferencesPermissionEnforcement).
- apiGroups: [argoproj.io]
  resources: [applicationsets/finalizers]
  verbs: [update]
# The live state: the kinds that Applications have, and of these only objects with
# the label slipway.dev/app. Kubernetes has no narrower permission for that.
- apiGroups: ["*"]
  resources: ["*"]
  verbs: [get, list, watch]
# Objects are applied as the ServiceAccount that the AppProject names.
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [impersonate]
# Releases of Deployments: the shares that the edges read, and their progress.
- apiGroups: [slipway.dev]
  resources: [releases]
  verbs: [create, update, delete]
- apiGroups: [slipway.dev]
  resources: [releases/status]
  verbs: [update]
# The progress of promotions. Their commits are made with the credentials of
# repositories. Users with the right start, approve and abort them in the console.
- apiGroups: [slipway.dev]
  resources: [promotions/status]
  verbs: [update]
- apiGroups: [slipway.dev]
  resources: [promotions]
  verbs: [create, patch]
# Events of Applications.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- if dig "imageUpdates" "enabled" false .Values.agent.config }}
# The status of ImageUpdaters, whose images the agent updates in Git.
- apiGroups: [argocd-image-updater.argoproj.io]
  resources: [imageupdaters/status]
  verbs: [patch]
{{- end }}
{{- if .Values.agent.argoRollouts }}
# Rollouts of Argo Rollouts: their status, their ReplicaSets, and what leads requests and
# Pods to these: Services, canary Ingresses, weights of HTTPRoutes, the Deployment of a
# workloadRef, metadata and restarts of Pods.
- apiGroups: [argoproj.io]
  resources: [rollouts, rollouts/status]
  verbs: [patch]
- apiGroups: [argoproj.io]
  resources: [rollouts/finalizers]
  verbs: [update]
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [create, patch, delete]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [patch]
- apiGroups: [""]
  resources: [services, pods]
  verbs: [patch]
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
- apiGroups: [networking.k8s.io]
  resources: [ingresses]
  verbs: [create, patch]
- apiGroups: [gateway.networking.k8s.io]
  resources: [httproutes]
  verbs: [patch]
# AnalysisRuns: those of Rollouts, their status, those that expire, and the Jobs of
# metrics with the run as owner.
- apiGroups: [argoproj.io]
  resources: [analysisruns]
  verbs: [create, patch, update, delete]
- apiGroups: [argoproj.io]
  resources: [analysisruns/status, analysisruns/finalizers]
  verbs: [update]
- apiGroups: [batch]
  resources: [jobs]
  verbs: [create, delete]
{{- end }}
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
# that an Ingress references, directly or indirectly. Kubernetes has no narrower permission.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch]
- apiGroups: [slipway.dev]
  resources: [middlewares, tlsoptions, backendtransports, releases]
  verbs: [list, watch]
# The metadata of Pods and ReplicaSets, only while their namespace has a Release: which
# revision an endpoint belongs to.
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [list, watch]
{{- if (index . 0).Values.edge.traefikObjects }}
- apiGroups: [traefik.io, traefik.containo.us]
  resources: [ingressroutes, ingressroutetcps, ingressrouteudps, traefikservices, middlewares, middlewaretcps, tlsoptions, serverstransports, serverstransporttcps, tlsstores]
  verbs: [list, watch]
{{- end }}
{{- if dig "providers" "kubernetesIngressNGINX" false (index . 0).Values.edge.config }}
# ConfigMaps with headers, which are read when an annotation of ingress-nginx names one.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [list, watch]
{{- end }}
{{- if and (index . 1) (index . 0).Values.edge.gatewayAPI.enabled }}
# Gateway API: what Gateways and routes are made of, with the labels of namespaces
# and the authorities in ConfigMaps, and the status of those that have one.
- apiGroups: [gateway.networking.k8s.io]
  resources: [gatewayclasses, gateways, listenersets, httproutes, grpcroutes, tlsroutes, tcproutes, udproutes, backendtlspolicies, referencegrants]
  verbs: [list, watch]
- apiGroups: [""]
  resources: [namespaces, configmaps]
  verbs: [list, watch]
- apiGroups: [gateway.networking.k8s.io]
  resources: [gatewayclasses/status, gateways/status, listenersets/status, httproutes/status, grpcroutes/status, tlsroutes/status, tcproutes/status, udproutes/status, backendtlspolicies/status]
  verbs: [patch]
{{- $given := dig "providers" "kubernetesGateway" (dict) (index . 0).Values.edge.config }}
{{- if or (index . 0).Values.edge.gatewayAPI.serviceType (and (kindIs "map" $given) (or (dig "services" false $given) (dig "serviceType" "" $given))) }}
- apiGroups: [""]
  resources: [services]
  verbs: [get, create, patch]
- apiGroups: [discovery.k8s.io]
  resources: [endpointslices]
  verbs: [create, patch]
{{- end }}
{{- end }}
# The status of Ingresses, and Events with the reasons of refusals.
- apiGroups: [networking.k8s.io]
  resources: [ingresses/status]
  verbs: [patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end -}}
