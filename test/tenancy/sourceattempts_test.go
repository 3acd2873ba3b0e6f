package tenancy

// from is an Application of evil with another source, in a project.
func from(project, source string) string { return app{project: project, source: source}.yaml() }

// spelling is bank's repository under another spelling, in a project that
// forbids it.
func spelling(name, address, reason string) attempt {
	return attempt{
		name: name, applies: from("forbidding", `source: {repoURL: '`+address+`', path: ., targetRevision: main}`), reason: reason, proof: unrequested("corp/" + name),
	}
}

// sourceAttempts are after repositories and charts of bank, and after the
// credentials of the runtime.
func sourceAttempts() []attempt {
	const (
		forbids   = "spec.sourceRepos forbids it"
		notListed = "spec.sourceRepos does not have it"
		hasUser   = "the address has a user or a password"
		noPlugin  = `does not allow the config management plugin "secrets"`
	)
	return []attempt{
		spelling("as-it-is", "http://localhost/corp/NAME", forbids),
		spelling("default-port", "http://localhost:80/corp/NAME", forbids),
		spelling("final-slash", "http://localhost/corp/NAME/", forbids),
		spelling("git-suffix", "http://localhost/corp/NAME.git", forbids),
		spelling("capital-host", "http://LOCALHOST/corp/NAME", forbids),
		spelling("capital-path", "http://localhost/CORP/NAME", forbids),
		spelling("https", "https://localhost/corp/NAME", forbids),
		spelling("user", "http://evil@localhost/corp/NAME", hasUser),
		spelling("password", "http://x:host-token@localhost/corp/NAME", hasUser),
		spelling("double-slash", "http://localhost//corp/NAME", "the path of the address has an empty part"),
		spelling("dot-dot", "http://localhost/evil/../corp/NAME", "the path of the address has an empty part, . or .."),
		spelling("encoded-letter", "http://localhost/%63orp/NAME", "percent-encoded character"),
		spelling("encoded-slash", "http://localhost/corp%2fNAME", "percent-encoded character"),
		spelling("backslash", `http://localhost\corp\NAME`, "a backslash"),
		spelling("dot-after-host", "http://localhost./corp/NAME", "without a dot at its end"),
		spelling("number-as-host", "http://2130706433/corp/NAME", "the address has no proper host"),
		spelling("query", "http://localhost/evil/apps?/corp/NAME", "the address has a query"),
		{name: "ssh-address", applies: from("forbidding", `source: {repoURL: "ssh://git@localhost/corp/NAME", path: ., targetRevision: main}`), reason: forbids, proof: unreached("22")},
		{name: "ssh-short", applies: from("forbidding", `source: {repoURL: "git@localhost:corp/NAME", path: ., targetRevision: main}`), reason: forbids, proof: unreached("22")},
		{name: "chart-of-registry", applies: from("forbidding", `source: {repoURL: "oci://localhost", chart: corp/NAME, targetRevision: 1.0.0}`), reason: forbids, proof: unreached("443")},
		{name: "query-as-host", applies: from(evil, `source: {repoURL: "http://127.0.0.1:7777?.corp.example/x", path: ., targetRevision: main}`), reason: "the address has a query", proof: unreached("7777")},
		{name: "fragment-as-host", applies: from(evil, `source: {repoURL: "http://127.0.0.1:7777#.corp.example/x", path: ., targetRevision: main}`), reason: "the address has a query", proof: unreached("7777")},
		{name: "user-as-host", applies: from(evil, `source: {repoURL: "http://a.corp.example@127.0.0.1:7777/x", path: ., targetRevision: main}`), reason: hasUser, proof: unreached("7777")},
		{name: "path-as-host", applies: from(evil, `source: {repoURL: "http://127.0.0.1:7777/.corp.example/x", path: ., targetRevision: main}`), reason: notListed, proof: unreached("7777")},
		// The agent of these attempts is allowed to connect to 127.0.0.1, where their
		// servers are, and to no other address of its machine.
		{name: "own-machine", applies: from("forbidding", `source: {repoURL: "http://127.0.0.2:7778/x", path: ., targetRevision: main}`), reason: "127.0.0.2 is an address of this machine", proof: unreached("7778")},
		{name: "file", applies: from("forbidding", `source: {repoURL: "file:///etc", path: ., targetRevision: main}`), reason: "the scheme of the address is not supported", proof: none},
		{name: "values-of-bank", applies: from(evil, `sources:
  - {repoURL: "http://localhost/evil/apps", path: NAME, targetRevision: main, helm: {valueFiles: [$bank/secrets/one.yaml]}}
  - {repoURL: "http://localhost/corp/NAME", ref: bank, targetRevision: main}`), reason: notListed, proof: unrequested("corp/values-of-bank")},
		{name: "charts-of-bank", applies: from(evil, `source: {repoURL: "http://localhost/charts/corp/NAME", chart: shop, targetRevision: 1.0.0}`),
			reason: notListed, proof: unrequested("charts/corp/charts-of-bank")},
		{name: "archive-of-bank", applies: from(evil, `source: {repoURL: "http://localhost/charts/evil", chart: stolen, targetRevision: 1.0.0}`),
			reason: notListed, proof: unrequested("archive-of-bank")},
		{name: "secret-of-bank", applies: from("forbidding", `source: {repoURL: "http://localhost/private/NAME", path: ., targetRevision: main}`),
			reason: "the server responds Unauthorized", proof: withoutCredential("secret-of-bank", "bank-token")},
		{name: "values-by-address", git: chartFiles, applies: from(evil, `source: {repoURL: "http://localhost/evil/apps", path: NAME, targetRevision: main, helm: {valueFiles: ["http://localhost/corp/NAME"]}}`),
			reason: notListed, proof: unrequested("corp/values-by-address")},
		{name: "dependency", git: chartFiles + "dependencies: [{name: shop, version: 1.0.0, repository: \"http://localhost/charts/corp/NAME\"}]\n",
			reason: notListed, proof: unrequested("charts/corp/dependency")},
		{name: "remote-base", git: "-- kustomization.yaml --\nresources: [\"http://localhost/corp/NAME?ref=main\"]\n",
			reason: notListed, proof: unrequested("corp/remote-base")},
		{name: "helm-charts", git: "-- kustomization.yaml --\nhelmCharts: [{name: shop, version: 1.0.0, repo: \"http://localhost/charts/corp/NAME\"}]\n",
			reason: notListed, proof: unrequested("charts/corp/helm-charts")},
		{name: "plugin", git: chartFiles, applies: from(evil, `source: {repoURL: "http://localhost/evil/apps", path: NAME, targetRevision: main, plugin: {name: secrets}}`),
			reason: noPlugin, proof: all(absent("ConfigMap evil/plugin"), uncalled)},
		{name: "plugin-of-override", git: "-- .argocd-source.yaml --\nplugin: {name: secrets}\n", reason: noPlugin, proof: all(absent("ConfigMap evil/plugin-of-override"), uncalled)},
		{name: "remote-file", git: "-- kustomization.yaml --\nresources: [\"http://localhost/corp/NAME.yaml\"]\n",
			reason: notListed, proof: unrequested("corp/remote-file")},
	}
}

// chartFiles is a chart; what is appended belongs to Chart.yaml.
const chartFiles = `-- templates/one.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: NAME}
-- Chart.yaml --
apiVersion: v2
name: shop
version: 1.0.0
`
