package values

// agentValues are the values of the agent's Deployment.
func agentValues() []Value {
	const group = "agent."
	return append([]Value{
		{Key: group + "replicas", Kind: Count, Default: 1, Rule: between(1, 10), About: "Replicas of the agent. One works at a time; with two, the other takes over within 20 seconds."},
		{Key: group + "namespaces", Kind: TextList, Default: []any{}, About: "More namespaces whose Applications are synced; * is every namespace. With singleNamespace these are also where it may deliver."},
		{Key: group + "deliverWithAllRights", Kind: Flag, Default: true, About: "Let the agent write everything, for Applications of projects that name no ServiceAccount. Set false where every AppProject has destinationServiceAccounts."},
		{Key: group + "config", Kind: Object, Default: map[string]any{}, About: "More options of slipway agent, as in its configuration file. They go before what the chart sets. No secrets: it is a ConfigMap."},
		{Key: KeyRepositoryCerts, Kind: TextMap, Default: map[string]any{}, About: "Authorities in PEM by the host of a Git server or registry: the ConfigMap argocd-tls-certs-cm."},
		{Key: group + "repositories.knownHosts", About: "Lines of known_hosts for Git over SSH: the ConfigMap argocd-ssh-known-hosts-cm."},
		{Key: group + "cache.sizeLimit", Default: "8Gi", Rule: quantity(), About: "Most that fetched repositories and charts may take on the node."},
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
		{Key: group + "service.type", Default: "LoadBalancer", Rule: Rule{OneOf: []string{"LoadBalancer", "NodePort", "ClusterIP"}}, About: "Type of the Service that traffic comes in by."},
		{Key: group + "service.annotations", Kind: TextMap, Default: map[string]any{}, About: "Annotations of that Service."},
		{Key: group + "service.externalTrafficPolicy", Default: "Local", Rule: Rule{OneOf: []string{"Local", "Cluster"}}, About: "Local keeps the addresses of clients, and no node passes traffic on to another."},
		{Key: group + "service.loadBalancerClass", About: "Implementation of the load balancer, where the cluster has several."},
		{Key: group + "service.loadBalancerSourceRanges", Kind: TextList, Default: []any{}, About: "Networks that may come in. When empty, all of them."},
		{Key: group + "service.httpPort", Kind: Count, Default: 80, Rule: between(1, 65535), About: "Port of the Service for HTTP."},
		{Key: group + "service.httpsPort", Kind: Count, Default: 443, Rule: between(1, 65535), About: "Port of the Service for HTTPS."},
		{Key: group + "ingressClass.create", Kind: Flag, Default: true, About: "Make the IngressClass. It is not made with singleNamespace."},
		{Key: group + "ingressClass.name", Default: "slipway", Rule: dnsName(), About: "Name of the IngressClass."},
		{Key: group + "ingressClass.default", Kind: Flag, Default: false, About: "Make it the class of Ingresses that name none."},
		{Key: group + "hostSharing", Default: "deny", Rule: Rule{OneOf: []string{"deny", "behind", "open"}}, About: "What becomes of the rules that a namespace has for the host of another one: deny refuses them unless the owner grants them, behind serves them after the owner's, open orders the rules of all namespaces alike, as Traefik does."},
		{Key: group + "status.enabled", Kind: Flag, Default: true, About: "Write the address of the Service to the status of each Ingress. Tools that make DNS records and the health of Applications need it."},
		{Key: group + "certificates.enabled", Kind: Flag, Default: false, About: "Give the edge the rights to keep certificates that it fetches by ACME. The resolvers are options: edge.config.certificatesResolvers."},
		{Key: group + "traefikObjects", Kind: Flag, Default: true, About: "Let the edge read Middlewares, TLSOptions and ServersTransports of traefik.io, for who comes from Traefik."},
		{Key: group + "config", Kind: Object, Default: map[string]any{}, About: "More options of slipway edge, as in its configuration file. They go before what the chart sets. No secrets: it is a ConfigMap."},
		{Key: group + "resources", Kind: Object, Default: map[string]any{"requests": map[string]any{"cpu": "100m", "memory": "128Mi"}, "limits": map[string]any{"memory": "512Mi"}}, About: "Resources of the edge. It sheds load before it reaches the limit."},
	}, workloadValues(group)...)
}

// workloadValues are the values that every Deployment has, below its group. The
// chart platform has a single Deployment and no group.
func workloadValues(group string) []Value {
	return []Value{
		{Key: group + "podAnnotations", Kind: TextMap, Default: map[string]any{}, About: "Annotations of the Pods."},
		{Key: group + "podLabels", Kind: TextMap, Default: map[string]any{}, About: "More labels of the Pods."},
		{Key: group + "serviceAccount.annotations", Kind: TextMap, Default: map[string]any{}, About: "Annotations of the ServiceAccount."},
		{Key: group + "affinity", Kind: Object, Default: map[string]any{}, About: "Affinity of the Pods. They are spread over nodes anyway."},
		{Key: group + "podDisruptionBudget.enabled", Kind: Flag, Default: true, About: "Keep one replica when nodes are drained. It is made where there are two or more."},
		{Key: group + "serviceMonitor.enabled", Kind: Flag, Default: false, About: "Make a ServiceMonitor for the Prometheus Operator."},
		{Key: group + "serviceMonitor.interval", Default: "30s", Rule: Rule{Pattern: `^[0-9]+(ms|s|m|h)$`, Means: "a time such as 30s"}, About: "How often Prometheus asks."},
		{Key: group + "serviceMonitor.labels", Kind: TextMap, Default: map[string]any{}, About: "Labels that the Prometheus Operator selects it by."},
		{Key: group + "networkPolicy.enabled", Kind: Flag, Default: false, About: "Let others reach only the ports that are for them."},
	}
}

// foreignValues are the groups of charts that this one replaces or leaves out.
// They are accepted with a warning, so that existing values files still
// install.
func foreignValues() []Value {
	var made []Value
	for _, chart := range []struct{ name, why string }{
		{"argo-cd", "The agent does its work. An Argo CD beside it is left alone."},
		{"argo-rollouts", "It is not part of this chart."},
		{"argo-workflows", "It is not part of this chart: see internal-router.workflowsURL."},
		{"argo-events", "The agent takes webhooks itself."},
		{"sealed-secrets", "It is not part of this chart."},
		{"app-proxy", "The agent does its work."},
		{"gitops-operator", "The agent does its work."},
		{"event-reporters", "The agent does its work."},
		{"argo-gateway", "The agent does its work."},
		{"redis", "Nothing needs it."},
		{"redis-ha", "Nothing needs it."},
	} {
		made = append(made, Value{Key: chart.name, Kind: Object, Default: map[string]any{}, About: "Taken and not used. " + chart.why, Ignored: true})
	}
	return made
}

// Platform is the catalogue of the chart platform.
func Platform() Catalogue {
	return Catalogue{
		Chart: "platform", About: "The control plane: accounts, API keys, runtimes, tunnels.",
		Values: append(platformValues(), placementValues()...), Open: []string{"global"},
	}
}

// platformValues are the values of the chart platform without those of
// placementValues.
func platformValues() []Value {
	return append([]Value{
		{Key: "publicURL", Rule: Rule{Pattern: `^https://[^/\s?#@]+/?$`, Means: "a URL such as https://slipway.example.com"}, About: "URL under which browsers, command lines and agents reach the platform. It is needed."},
		{Key: "tunnelDomain", Rule: dnsName(), About: "Domain of the host names of tunnels: *.<domain> has to lead to the platform. Webhooks of runtimes in tunnel mode need it."},
		{Key: "replicas", Kind: Count, Default: 1, Rule: between(1, 20), About: "Replicas. More than one need PostgreSQL."},
		{Key: "firstStart.account", Default: "default", About: "Name of the account that the first start makes."},
		{Key: "firstStart.email", Default: "admin@example.com", About: "Email of the admin that the first start makes. The password is in the log of the first start, once."},
		{Key: "database.urlSecretKeyRef.name", Rule: dnsName(), About: "Secret of the namespace with the URL of a PostgreSQL database. When empty, it is a SQLite file on a volume."},
		{Key: "database.urlSecretKeyRef.key", Default: "url", About: "Key in that Secret."},
		{Key: "keySecretRef.name", Rule: dnsName(), About: "Secret of the namespace with the text that encrypts the platform's private keys: at least 32 characters. PostgreSQL needs it; with SQLite one is made on the volume when it is empty."},
		{Key: "keySecretRef.key", Default: "key", About: "Key in that Secret."},
		{Key: "persistence.size", Default: "5Gi", Rule: quantity(), About: "Size of the volume of the SQLite file."},
		{Key: "persistence.storageClass", Rule: dnsName(), About: "StorageClass of the volume. When empty, it is the cluster's own."},
		{Key: "persistence.existingClaim", Rule: dnsName(), About: "PersistentVolumeClaim to use, in the place of a new one."},
		{Key: "tls.secretName", Rule: dnsName(), About: "Secret of type kubernetes.io/tls: the platform ends TLS itself. When empty, what is in front has to."},
		{Key: "runtimes.caSecretKeyRef.name", Rule: dnsName(), About: "Secret of the namespace with authorities that may vouch for the hosts of runtimes behind an Ingress or a mesh, beside those of the system."},
		{Key: "runtimes.caSecretKeyRef.key", Default: "ca-bundle.crt", About: "Key in that Secret."},
		{Key: "trustedProxies", Kind: TextList, Default: []any{}, About: "Addresses or networks of proxies whose X-Forwarded-For is believed."},
		{Key: "service.type", Default: "ClusterIP", Rule: Rule{OneOf: []string{"ClusterIP", "LoadBalancer", "NodePort"}}, About: "Type of the Service. A LoadBalancer needs tls.secretName."},
		{Key: "service.annotations", Kind: TextMap, Default: map[string]any{}, About: "Annotations of the Service."},
		{Key: "ingress.enabled", Kind: Flag, Default: false, About: "Make an Ingress for the host of publicURL, and for *.tunnelDomain."},
		{Key: "ingress.className", Rule: dnsName(), About: "IngressClass of the Ingress."},
		{Key: "ingress.tlsSecretName", Rule: dnsName(), About: "Secret with the certificate of the Ingress."},
		{Key: "ingress.annotations", Kind: TextMap, Default: map[string]any{}, About: "Annotations of the Ingress."},
		{Key: "ingress.labels", Kind: TextMap, Default: map[string]any{}, About: "More labels of the Ingress."},
		{Key: "config", Kind: Object, Default: map[string]any{}, About: "More options of slipway platform, as in its configuration file. They go before what the chart sets. No secrets: it is a ConfigMap."},
		{Key: "resources", Kind: Object, Default: map[string]any{"requests": map[string]any{"cpu": "50m", "memory": "128Mi"}, "limits": map[string]any{"memory": "1Gi"}}, About: "Resources of the platform."},
	}, workloadValues("")...)
}
