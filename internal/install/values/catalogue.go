package values

import "slices"

// The keys that more than one package reads. They are part of the chart's
// interface: users have them in their files.
const (
	// The platform that the runtime joins, and the credentials for it.
	KeyPlatformEnabled = "global.platform.enabled"
	KeyPlatformURL     = "global.platform.url"
	KeyAccountID       = "global.platform.accountId"
	KeyToken           = "global.platform.userToken.token"
	KeyTokenRefName    = "global.platform.userToken.secretKeyRef.name"
	KeyTokenRefKey     = "global.platform.userToken.secretKeyRef.key"
	KeyCARefName       = "global.platform.tls.caCerts.secretKeyRef.name"
	KeyCARefKey        = "global.platform.tls.caCerts.secretKeyRef.key"
	KeyCACreate        = "global.platform.tls.caCerts.secret.create"
	KeyCAContent       = "global.platform.tls.caCerts.secret.content"
	// The runtime itself, and how it is reached.
	KeyRuntimeName     = "global.runtime.name"
	KeySingleNamespace = "global.runtime.singleNamespace"
	// KeyIngressAnnotations are those of the Ingress, and KeyIngressSkip turns
	// off the checks of the address.
	KeyIngressAnnotations = "global.runtime.ingress.annotations"
	KeyIngressSkip        = "global.runtime.ingress.skipValidation"
	KeyMeshEnabled        = "global.runtime.virtualService.enabled"
	KeyMeshGateway        = "global.runtime.virtualService.gateway"
	// The credentials for Git, inline or in a Secret.
	KeyGitUsername = "global.runtime.gitCredentials.username"
	KeyGitPassword = "global.runtime.gitCredentials.password.value"
	KeyGitRefName  = "global.runtime.gitCredentials.password.secretKeyRef.name"
	KeyGitRefKey   = "global.runtime.gitCredentials.password.secretKeyRef.key"
	KeyGitURL      = "global.runtime.gitCredentials.url"
	// An option of the chart's hook, and one of the agent.
	KeySkipValidation  = "installer.skipValidation"
	KeyRepositoryCerts = "agent.repositories.certificates"
)

// aliasOf returns the older spelling of a key below global.platform, which
// values files of the original chart have.
func aliasOf(rest string) string { return "global.codefresh." + rest }

// Runtime is the catalogue of the chart gitops-runtime. The order of the groups
// is that of values.yaml and of the reference page.
func Runtime() Catalogue {
	return Catalogue{
		Chart: "gitops-runtime", About: "The runtime of one cluster: the agent, which deploys from Git, and the edge, which serves traffic.",
		Values: slices.Concat(platformLinkValues(), runtimeValues(), accessValues(), placementValues(), installerValues(), agentValues(), edgeValues(), monitoringValues(), foreignValues()),
		// Helm shares the group global among all charts of a release, so it may
		// have keys of others.
		Open: []string{"global"},
	}
}

// platformLinkValues are the values of the link to the platform. Every key but
// enabled and allowHTTP has an older spelling.
func platformLinkValues() []Value {
	const group = "global.platform."
	made := []Value{
		{Key: KeyPlatformEnabled, Kind: Flag, Default: true, About: "Join a platform. Without one the agent still delivers, and only webhooks of Git hosts reach it from outside."},
		{Key: KeyPlatformURL, Rule: webAddress(), About: "URL of the platform that the runtime joins, such as https://slipway.example.com."},
		{Key: KeyAccountID, Rule: Rule{Pattern: `^[0-9a-f]{24}$`, Means: "the 24 hexadecimal digits that the platform shows"}, About: "ID of the account. The tunnel needs it; an API key of another account is refused."},
		{Key: KeyToken, Secret: true, About: "API key of an admin, or one with the scope runtime-register. It goes to a Secret and is mounted as a file. Prefer secretKeyRef: Helm keeps values with the release."},
		{Key: KeyTokenRefName, Rule: dnsName(), About: "Secret of the namespace with the API key, instead of token."},
		{Key: KeyTokenRefKey, Default: "token", About: "Key in that Secret."},
		{Key: KeyCARefName, Rule: dnsName(), About: "Secret of the namespace with CA certificates that verify the platform, in addition to the system's."},
		{Key: KeyCARefKey, Default: "ca-bundle.crt", About: "Key in that Secret."},
		{Key: KeyCACreate, Kind: Flag, Default: false, About: "Create the Secret slipway-tls-certs from content."},
		{Key: group + "tls.caCerts.secret.key", Default: "ca-bundle.crt", About: "Key in the created Secret."},
		{Key: group + "tls.caCerts.secret.annotations", Kind: TextMap, Default: map[string]any{}, About: "Annotations of the created Secret."},
		{Key: KeyCAContent, About: "The CA certificates, in PEM."},
	}
	// The flag that disables the platform is new and has no older spelling.
	for i := range made {
		if made[i].Key != KeyPlatformEnabled {
			made[i].Alias = aliasOf(made[i].Key[len(group):])
		}
	}
	// allowHTTP is added after the loop: it has no older spelling either.
	return append(made, Value{Key: group + "allowHTTP", Kind: Flag, Default: false, About: "Allow a platform without TLS. Credentials then cross the network without encryption: for trials only."})
}

// runtimeValues are the values of the runtime as a whole: its name, its rights
// and its Git credentials.
func runtimeValues() []Value {
	const group = "global.runtime."
	return []Value{
		{Key: KeyRuntimeName, Default: "slipway", Rule: Rule{Pattern: `^[a-z]([-a-z0-9]{0,36}[a-z0-9])?$`, Means: "at most 38 lower-case letters, digits and dashes, beginning with a letter", Needed: true}, About: "Name of the runtime, unique in the account."},
		{Key: group + "cluster", About: "Display name of the cluster. When empty, it is the host of its API server."},
		{Key: KeySingleNamespace, Kind: Flag, Default: false, About: "Limit the permissions to the namespace of the runtime and to agent.namespaces, so that several runtimes can share a cluster. Nothing is created outside of them; the only object that is read outside of them is the namespace kube-system, which identifies the cluster."},
		{Key: group + "isConfigurationRuntime", Kind: Flag, Default: false, About: "Make this the configuration runtime of the account. The first runtime always becomes the configuration runtime."},
		{Key: KeyGitUsername, About: "User name at the Git provider, if it requires one."},
		{Key: KeyGitPassword, Secret: true, About: "Git runtime token, with which the runtime has its Git credentials from the start. It goes to a Secret. Prefer secretKeyRef."},
		{Key: KeyGitRefName, Rule: dnsName(), About: "Secret of the namespace with the Git runtime token."},
		{Key: KeyGitRefKey, Default: "password", About: "Key in that Secret."},
		{Key: KeyGitURL, Rule: Rule{Pattern: `^https?://[^\s?#@]+$`, Means: "a URL such as https://github.com/acme, without a user and a query"}, About: "URL prefix of repositories that the credentials are for beside those of the account's Git server. A runtime without a platform needs it."},
	}
}

// accessValues are the values of the four access modes: tunnel, Ingress,
// HTTPRoute and service mesh. Package access/mode resolves them.
func accessValues() []Value {
	const (
		ingress = "global.runtime.ingress."
		route   = "global.runtime.httpRoute."
	)
	return []Value{
		{Key: "tunnel-client.enabled", Kind: Flag, About: "Reach the runtime through the tunnel, which is the default when no other access mode is enabled. Set false, with ingressUrl, for a service mesh."},
		{Key: ingress + "enabled", Kind: Flag, Default: false, About: "Reach the runtime through an Ingress instead of the tunnel."},
		{Key: ingress + "protocol", Default: "https", Rule: protocol(), About: "Protocol of the Ingress as the platform sees it."},
		{Key: ingress + "className", Rule: dnsName(), About: "IngressClass of the controller. Required for an Ingress."},
		{Key: ingress + "hosts", Kind: TextList, Default: []any{}, About: "Hosts or addresses of the Ingress. The platform uses the first."},
		{Key: ingress + "tls", Kind: ObjectList, Default: []any{}, About: "Certificates, as in the specification of an Ingress: each with hosts and secretName."},
		{Key: KeyIngressAnnotations, Kind: TextMap, Default: map[string]any{}, About: "Annotations of the Ingress."},
		{Key: ingress + "labels", Kind: TextMap, Default: map[string]any{}, About: "Additional labels of the Ingress."},
		{Key: KeyIngressSkip, Kind: Flag, Default: false, About: "Do not send a request to the address of the Ingress, HTTPRoute or mesh before the installation, for example because its DNS record comes later."},
		{Key: route + "enabled", Kind: Flag, Default: false, About: "Reach the runtime through an HTTPRoute of the Gateway API instead of the tunnel."},
		{Key: route + "protocol", Default: "https", Rule: protocol(), About: "Protocol of the Gateway as the platform sees it."},
		{Key: route + "parentRefs", Kind: ObjectList, Default: []any{}, About: "Gateways, as in the specification of an HTTPRoute: each with name, and namespace, sectionName and port where needed."},
		{Key: route + "hostnames", Kind: TextList, Default: []any{}, About: "Host names of the HTTPRoute. The platform uses the first."},
		{Key: route + "annotations", Kind: TextMap, Default: map[string]any{}, About: "Annotations of the HTTPRoute."},
		{Key: route + "labels", Kind: TextMap, Default: map[string]any{}, About: "Additional labels of the HTTPRoute."},
		{Key: "global.runtime.ingressUrl", About: "URL at which a service mesh serves the runtime. It requires tunnel-client.enabled=false."},
		{Key: KeyMeshEnabled, Kind: Flag, Default: false, About: "Create the Istio VirtualService for the host of ingressUrl. Otherwise, slipway runtime mesh generate prints one."},
		{Key: KeyMeshGateway, Rule: Rule{Pattern: `^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/)?[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`, Means: "name, or namespace/name"}, About: "Istio Gateway of the VirtualService."},
		{Key: "internal-router.service.annotations", Kind: TextMap, Default: map[string]any{}, About: "Annotations of the Service internal-router, which is the target of every access mode."},
		{Key: "internal-router.workflowsURL", Rule: Rule{Pattern: `^https?://[^\s?#@]+$`, Means: "a URL"}, About: "URL of a workflow server that /workflows forwards to."},
	}
}

// placementValues are the values of the image and of the nodes that Pods run
// on. Both charts have them.
func placementValues() []Value {
	return []Value{
		{Key: "global.imageRegistry", Rule: Rule{Pattern: `^[a-zA-Z0-9][-a-zA-Z0-9.:/_]*$`, Means: "a registry such as registry.example.com/mirror"}, About: "Registry of the image, instead of image.registry."},
		{Key: "global.imagePullSecrets", Kind: TextList, Default: []any{}, About: "Secrets of the namespace with which images are pulled."},
		{Key: "image.registry", Default: "slipway.dev", About: "Registry of the image."},
		{Key: "image.repository", Default: "slipway", About: "Repository of the image. One image has all parts."},
		{Key: "image.tag", About: "Tag of the image. When empty, it is the version of the chart's application."},
		{Key: "image.digest", Rule: Rule{Pattern: `^sha256:[0-9a-f]{64}$`, Means: "sha256: and 64 hexadecimal digits"}, About: "Digest of the image; it takes precedence over the tag."},
		{Key: "image.pullPolicy", Default: "IfNotPresent", Rule: Rule{OneOf: []string{"Always", "IfNotPresent", "Never"}}, About: "When nodes pull the image."},
		{Key: "global.nodeSelector", Kind: TextMap, Default: map[string]any{}, About: "Labels of the nodes that all Pods run on."},
		{Key: "global.tolerations", Kind: ObjectList, Default: []any{}, About: "Taints that all Pods tolerate."},
		{Key: "global.priorityClassName", Rule: dnsName(), About: "PriorityClass of all Pods."},
		{Key: "global.httpProxy", Secret: true, About: "Proxy for requests without TLS. It goes to a Secret, since it may have a password."},
		{Key: "global.httpsProxy", Secret: true, About: "Proxy for requests with TLS. It goes to a Secret, since it may have a password."},
		{Key: "global.noProxy", About: "Hosts that are reached without a proxy, with commas between them. Hosts of the cluster are added."},
	}
}

// installerValues are the values of the hook that validates before an
// installation or upgrade.
func installerValues() []Value {
	return []Value{
		{Key: KeySkipValidation, Kind: Flag, Default: false, About: "Do not check the values in the cluster before an installation or upgrade. The checks of the templates and the schema still apply."},
		{Key: "installer.resources", Kind: Object, Default: map[string]any{"requests": map[string]any{"cpu": "50m", "memory": "64Mi"}, "limits": map[string]any{"memory": "256Mi"}}, About: "Resources of the validation Job."},
	}
}
