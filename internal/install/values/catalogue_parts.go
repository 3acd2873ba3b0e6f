package values

import (
	"slices"
	"strings"
)

// agentValues are the values of the agent's Deployment.
func agentValues() []Value {
	const group = "agent."
	return append([]Value{
		{Key: group + "replicas", Kind: Count, Default: 1, Rule: between(1, 10), About: "Replicas of the agent. Only the leader is active, and with two the other takes over within 25 seconds; with config.applications.divide all of them share the Applications."},
		{Key: group + "namespaces", Kind: TextList, Default: []any{}, About: "Additional namespaces whose Applications are synced; * means every namespace. With singleNamespace they are also the namespaces that it may deploy to."},
		{Key: group + "deliverWithAllRights", Kind: Flag, Default: true, About: "Give the agent permission to write everything, for Applications of projects that name no ServiceAccount. Set false if every AppProject has destinationServiceAccounts."},
		{Key: group + "argoRollouts", Kind: Flag, Default: false, About: "Give the agent the permissions for Rollouts and AnalysisRuns of Argo Rollouts where deliverWithAllRights is false: ReplicaSets, Services, Ingresses, HTTPRoutes, Pods and Jobs in every namespace."},
		{Key: group + "config", Kind: Object, Default: map[string]any{}, About: "Additional options of slipway agent, as in its configuration file. They override the options that the chart sets. No secrets: it is a ConfigMap."},
		{Key: KeyRepositoryCerts, Kind: TextMap, Default: map[string]any{}, About: "CA certificates in PEM, by host of a Git server or registry: the ConfigMap argocd-tls-certs-cm."},
		{Key: group + "repositories.knownHosts", About: "Lines of known_hosts for Git over SSH: the ConfigMap argocd-ssh-known-hosts-cm."},
		{Key: group + "cache.sizeLimit", Default: "8Gi", Rule: quantity(), About: "Maximum disk space on the node for fetched repositories and charts. Keep it above the option sources.diskLimit of the agent, 7Gi by default."},
		{Key: group + "extraContainers", Kind: ObjectList, Default: []any{}, About: "Additional containers of the agent's Pods: config management plugins, as in repoServer.extraContainers of Argo CD's chart. With them the Pods have the volumes plugins, for the sockets, which the agent mounts at /home/argocd/cmp-server/plugins, and var-files, for argocd-cmp-server. They run as user 65532 unless they name another; then the agent cannot open their sockets."},
		{Key: group + "initContainers", Kind: ObjectList, Default: []any{}, About: "Init containers of the agent's Pods, such as one that copies argocd-cmp-server to the volume var-files."},
		{Key: group + "volumes", Kind: ObjectList, Default: []any{}, About: "Additional volumes of the agent's Pods, such as ConfigMaps with plugin.yaml."},
		{Key: group + "resources", Kind: Object, Default: map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "256Mi"}, "limits": map[string]any{"memory": "1536Mi"}}, About: "Resources of the agent. The limit has room for two renders of 512Mi each."},
	}, workloadValues(group)...)
}

// edgeValues are the values of the edge: its Deployment, its Service and its
// IngressClass.
func edgeValues() []Value {
	const group = "edge."
	return append([]Value{
		{Key: group + "enabled", Kind: Flag, Default: true, About: "Install the edge: the ingress controller and its proxy."},
		{Key: group + "replicas", Kind: Count, Default: 2, Rule: between(1, 100), About: "Replicas of the edge. All of them serve."},
		{Key: group + "service.type", Rule: Rule{Pattern: `^(LoadBalancer|NodePort|ClusterIP)$`, Means: "LoadBalancer, NodePort or ClusterIP"}, About: "Type of the Service that receives traffic: LoadBalancer, NodePort or ClusterIP. When empty, it is LoadBalancer, or ClusterIP if the runtime is reached through another Ingress controller, which has a load balancer already."},
		{Key: group + "service.annotations", Kind: TextMap, Default: map[string]any{}, About: "Annotations of that Service."},
		{Key: group + "service.externalTrafficPolicy", Default: "Local", Rule: Rule{OneOf: []string{"Local", "Cluster"}}, About: "Local preserves client addresses, and no node forwards traffic to another."},
		{Key: group + "service.loadBalancerClass", About: "Implementation of the load balancer, if the cluster has several."},
		{Key: group + "service.loadBalancerSourceRanges", Kind: TextList, Default: []any{}, About: "Client networks that may connect. When empty, all."},
		{Key: group + "service.httpPort", Kind: Count, Default: 80, Rule: between(1, 65535), About: "Port of the Service for HTTP."},
		{Key: group + "service.httpsPort", Kind: Count, Default: 443, Rule: between(1, 65535), About: "Port of the Service for HTTPS."},
		{Key: group + "ingressClass.create", Kind: Flag, Default: true, About: "Create the IngressClass. It is not created with singleNamespace."},
		{Key: group + "ingressClass.name", Default: "slipway", Rule: dnsName(), About: "Name of the IngressClass."},
		{Key: group + "ingressClass.default", Kind: Flag, Default: false, About: "Make it the default class of Ingresses."},
		{Key: group + "hostSharing", Default: "deny", Rule: Rule{OneOf: []string{"deny", "behind", "open"}}, About: "How the edge treats rules of a namespace for a host of another namespace: deny refuses them unless the owner grants them, behind serves them after the owner's, open orders the rules of all namespaces alike, as Traefik does."},
		{Key: group + "status.enabled", Kind: Flag, Default: true, About: "Write the address of the Service to the status of each Ingress. Tools that create DNS records and the health of Applications require it."},
		{Key: group + "certificates.enabled", Kind: Flag, Default: false, About: "Give the edge the permissions to store certificates that it obtains with ACME. The resolvers are options: edge.config.certificatesResolvers."},
		{Key: group + "certificates.credentialsSecret", Rule: dnsName(), About: "Secret of the namespace with credentials for DNS challenges. Its keys are files in /etc/slipway-acme of the edge, such as /etc/slipway-acme/tsig for edge.config.certificatesResolvers.le.acme.dnsChallenge.rfc2136.tsigSecretFile."},
		{Key: group + "sharedSecret", Rule: dnsName(), About: "Secret of the namespace with at least 32 random bytes under the key secret, for all replicas. With it rate limits hold for all replicas together, TLS sessions resume on every replica, and sticky cookies cannot be guessed. When empty, each replica counts and has keys on its own."},
		{Key: group + "traefikObjects", Kind: Flag, Default: true, About: "Let the edge read objects of Traefik, for a migration: those that Ingresses reference and, with edge.config.providers.kubernetesCRD, IngressRoutes."},
		{Key: group + "gatewayAPI.enabled", Kind: Flag, Default: false, About: "Serve Gateways and their routes: create the GatewayClass, give the edge the permissions, and enable its provider. The cluster needs the definitions of Gateway API, which slipway runtime install and slipway crds upgrade --only gateway create, and the chart itself with gatewayAPI.definitions. It has no effect with singleNamespace."},
		{Key: group + "gatewayAPI.definitions", Kind: Flag, Default: false, About: "Run a Job before each installation and upgrade that creates the definitions of Gateway API that are missing, for those who install with Helm alone. It upgrades those that it created, and changes no others and no newer ones."},
		{Key: group + "gatewayAPI.className", Default: "slipway", Rule: dnsName(), About: "Name of the GatewayClass."},
		{Key: group + "gatewayAPI.addresses", Kind: TextList, Default: []any{}, About: "Addresses for Gateways, each an address or a network, on which the Pods of the edge can listen."},
		{Key: group + "gatewayAPI.serviceType", Rule: Rule{Pattern: `^(LoadBalancer|NodePort|ClusterIP)$`, Means: "LoadBalancer, NodePort or ClusterIP"}, About: "Type of the Service that each Gateway gets instead of such an address. It leads to ports 20000 to 20999 of the edge's Pods, one for each port of a Gateway."},
		{Key: group + "gatewayAPI.deployments", Kind: Flag, Default: false, About: "With serviceType: give each Gateway a Deployment of its own in the namespace of the runtime, with the Pods of the edge, and the edge the permissions for that."},
		{Key: group + "config", Kind: Object, Default: map[string]any{}, About: "Additional options of slipway edge, as in its configuration file. They override the options that the chart sets. No secrets: it is a ConfigMap."},
		{Key: group + "resources", Kind: Object, Default: map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "128Mi"}, "limits": map[string]any{"memory": "512Mi"}}, About: "Resources of the edge. It sheds load before it reaches the limit."},
	}, workloadValues(group)...)
}

// workloadValues are the values that every Deployment has, below its group. The
// chart platform has a single Deployment and no group.
func workloadValues(group string) []Value {
	return []Value{
		{Key: group + "podAnnotations", Kind: TextMap, Default: map[string]any{}, About: "Annotations of the Pods."},
		{Key: group + "podLabels", Kind: TextMap, Default: map[string]any{}, About: "Additional labels of the Pods."},
		{Key: group + "serviceAccount.annotations", Kind: TextMap, Default: map[string]any{}, About: "Annotations of the ServiceAccount."},
		{Key: group + "affinity", Kind: Object, Default: map[string]any{}, About: "Affinity of the Pods. By default, they are spread over nodes."},
		{Key: group + "podDisruptionBudget.enabled", Kind: Flag, Default: true, About: "Keep one replica when nodes are drained. The PodDisruptionBudget is created if there are two or more replicas."},
		{Key: group + "serviceMonitor.enabled", Kind: Flag, Default: false, About: "Create a ServiceMonitor for the Prometheus Operator."},
		{Key: group + "serviceMonitor.interval", Default: "30s", Rule: Rule{Pattern: `^[0-9]+(ms|s|m|h)$`, Means: "a time such as 30s"}, About: "Scrape interval of Prometheus."},
		{Key: group + "serviceMonitor.labels", Kind: TextMap, Default: map[string]any{}, About: "Labels by which the Prometheus Operator selects it."},
		{Key: group + "networkPolicy.enabled", Kind: Flag, Default: false, About: "Create a NetworkPolicy that limits each client to its ports."},
	}
}

// monitoringValues are the values of alerts and dashboards, which both charts
// have.
func monitoringValues() []Value {
	const group = "monitoring."
	return []Value{
		{Key: group + "rules.enabled", Kind: Flag, Default: false, About: "Create a PrometheusRule with the alerts, for the Prometheus Operator. One installation is enough for all that a Prometheus scrapes."},
		{Key: group + "rules.labels", Kind: TextMap, Default: map[string]any{}, About: "Labels by which the Prometheus Operator selects it."},
		{Key: group + "dashboards.enabled", Kind: Flag, Default: false, About: "Create a ConfigMap for each dashboard, for the sidecar of Grafana's chart."},
		{Key: group + "dashboards.labels", Kind: TextMap, Default: map[string]any{"grafana_dashboard": "1"}, About: "Labels by which the sidecar finds them."},
		{Key: group + "dashboards.annotations", Kind: TextMap, Default: map[string]any{}, About: "Annotations of the ConfigMaps, such as the folder in Grafana."},
	}
}

// ignoredPrefix starts the description of a group that is not used.
const ignoredPrefix = "Accepted and ignored. "

// foreignValues are the groups of charts that this one replaces or leaves out.
// They are accepted with a warning, so that existing values files still
// install.
func foreignValues() []Value {
	var made []Value
	for _, chart := range []struct{ name, why string }{
		{"argo-cd", "The agent replaces it. An existing Argo CD is not changed."},
		{"argo-rollouts", "It is not part of this chart."},
		{"argo-workflows", "It is not part of this chart: see internal-router.workflowsURL."},
		{"argo-events", "The agent receives webhooks itself."},
		{"sealed-secrets", "It is not part of this chart."},
		{"app-proxy", "The agent replaces it."},
		{"gitops-operator", "The agent replaces it."},
		{"event-reporters", "The agent replaces it."},
		{"argo-gateway", "The agent replaces it."},
		{"redis", "It is not needed."},
		{"redis-ha", "It is not needed."},
	} {
		// The four Argo projects, whose definitions users may keep outside of the
		// release (R25).
		argo := strings.HasPrefix(chart.name, "argo-") && chart.name != "argo-gateway"
		about := ignoredPrefix + chart.why
		if argo {
			about += " crds.install=false leaves the definitions of the project to you."
		}
		made = append(made, Value{Key: chart.name, Kind: Object, Default: map[string]any{}, About: about, Ignored: true, Definitions: argo})
	}
	return made
}

// Platform is the catalogue of the chart platform.
func Platform() Catalogue {
	return Catalogue{
		Chart: "platform", About: "The control plane: accounts, API keys, runtimes, tunnels.",
		Values: slices.Concat(platformValues(), monitoringValues(), placementValues()), Open: []string{"global"},
	}
}

// platformValues are the values of the chart platform without those of
// placementValues.
func platformValues() []Value {
	return append([]Value{
		{Key: "publicURL", Rule: Rule{Pattern: `^https://[^/\s?#@]+/?$`, Means: "a URL such as https://slipway.example.com"}, About: "URL at which browsers, command lines and agents reach the platform. Required."},
		{Key: "tunnelDomain", Rule: dnsName(), About: "Domain of the host names of tunnels: *.<domain> must resolve to the platform. Webhooks of runtimes in tunnel mode require it."},
		{Key: "replicas", Kind: Count, Default: 1, Rule: between(1, 20), About: "Replicas. More than one require PostgreSQL."},
		{Key: "firstStart.account", Default: "default", About: "Name of the account that the first start creates."},
		{Key: "firstStart.email", Default: "admin@example.com", About: "Email of the admin that the first start creates. The log of the first start contains the password, once."},
		{Key: "database.urlSecretKeyRef.name", Rule: dnsName(), About: "Secret of the namespace with the URL of a PostgreSQL database. When empty, it is a SQLite file on a volume."},
		{Key: "database.urlSecretKeyRef.key", Default: "url", About: "Key in that Secret."},
		{Key: "keySecretRef.name", Rule: dnsName(), About: "Secret of the namespace with the text that encrypts the platform's private keys: at least 32 characters. PostgreSQL requires it; when empty, SQLite creates one on the volume."},
		{Key: "keySecretRef.key", Default: "key", About: "Key in that Secret."},
		{Key: "persistence.size", Default: "5Gi", Rule: quantity(), About: "Size of the volume of the SQLite file."},
		{Key: "persistence.storageClass", Rule: dnsName(), About: "StorageClass of the volume. When empty, it is the default of the cluster."},
		{Key: "persistence.existingClaim", Rule: dnsName(), About: "PersistentVolumeClaim to use instead of a new one."},
		{Key: "tls.secretName", Rule: dnsName(), About: "Secret of type kubernetes.io/tls, with which the platform terminates TLS itself. When empty, a proxy in front of it must."},
		{Key: "runtimes.caSecretKeyRef.name", Rule: dnsName(), About: "Secret of the namespace with CA certificates that verify the hosts of runtimes behind an Ingress or a mesh, in addition to the system's."},
		{Key: "runtimes.caSecretKeyRef.key", Default: "ca-bundle.crt", About: "Key in that Secret."},
		{Key: "trustedProxies", Kind: TextList, Default: []any{}, About: "Addresses or networks of proxies whose X-Forwarded-For header is trusted."},
		{Key: "service.type", Default: "ClusterIP", Rule: Rule{OneOf: []string{"ClusterIP", "LoadBalancer", "NodePort"}}, About: "Type of the Service. A LoadBalancer requires tls.secretName."},
		{Key: "service.annotations", Kind: TextMap, Default: map[string]any{}, About: "Annotations of the Service."},
		{Key: "ingress.enabled", Kind: Flag, Default: false, About: "Create an Ingress for the host of publicURL, and for *.tunnelDomain."},
		{Key: "ingress.className", Rule: dnsName(), About: "IngressClass of the Ingress."},
		{Key: "ingress.tlsSecretName", Rule: dnsName(), About: "Secret with the certificate of the Ingress."},
		{Key: "ingress.annotations", Kind: TextMap, Default: map[string]any{}, About: "Annotations of the Ingress."},
		{Key: "ingress.labels", Kind: TextMap, Default: map[string]any{}, About: "Additional labels of the Ingress."},
		{Key: "config", Kind: Object, Default: map[string]any{}, About: "Additional options of slipway platform, as in its configuration file. They override the options that the chart sets. No secrets: it is a ConfigMap."},
		{Key: "resources", Kind: Object, Default: map[string]any{"requests": map[string]any{"cpu": "50m", "memory": "128Mi"}, "limits": map[string]any{"memory": "1Gi"}}, About: "Resources of the platform."},
	}, workloadValues("")...)
}
